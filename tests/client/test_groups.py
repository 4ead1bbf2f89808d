"""Groups as programs use them: take loops, settling, workers, acks in transactions."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import tms


@pytest.fixture
def group(topic: tms.Topic) -> tms.TopicGroup:
    group = topic.group("billing")
    group.create(retry_s=1)
    return group


def taken(group: tms.TopicGroup, count: int) -> Iterator[tms.GroupMessage]:
    """Give so many messages, then end the loop."""
    loop = group.take(lease_s=5)
    for _ in range(count):
        yield next(loop)


def wait_until(condition: object) -> None:
    end = time.monotonic() + 40
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_loop_acknowledges_what_its_body_did(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish([b"%d" % number for number in range(30)])

    done = []
    for message in taken(group, 30):
        with message:
            done.append(message.payload)

    assert done == [b"%d" % number for number in range(30)]
    assert (group.show().state.open, group.show().state.unread) == (0, 0)


@pytest.mark.parametrize("behind", ["time", "datetime", "id", "end", "start"])
def test_a_group_begins_where_it_is_told(topic: tms.Topic, behind: str) -> None:
    topic.publish(b"before")
    [first] = topic.poll()
    wait_until(lambda: time.time() * 1000 >= first.publish_timestamp + 1)
    now = datetime.now(UTC)
    topic.publish(b"after")
    places: dict[str, Any] = {
        "time": int(now.timestamp() * 1000),
        "datetime": now,
        "id": first,
        "end": "end",
        "start": "start",
    }

    group = topic.group("late")
    group.create(after=places[behind])

    given = {"end": [], "start": [b"before", b"after"]}.get(behind, [b"after"])
    assert [message.payload for message in taken(group, len(given))] == given
    assert group.show().state.unread == 0


def test_a_group_is_no_position_of_one_reader(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish(b"one")
    reader = topic.subscription("billing")
    for use in (reader.delete, reader.position, lambda: list(reader.poll())):
        with pytest.raises(tms.SubscriptionIsShared) as refused:
            use()
        assert refused.value.status == 409

    assert [message.payload for message in taken(group, 1)] == [b"one"]
    topic.subscription("reader").create()
    with pytest.raises(tms.SubscriptionIsSingle):
        topic.group("reader").delete()
    group.delete()
    with pytest.raises(tms.SubscriptionNotFound):
        reader.delete()


def test_an_exception_nacks_with_itself_as_the_reason(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    group.set(retry_s=1)
    topic.publish(b"one")

    def work() -> None:
        for message in group.take():
            with message:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    [opened] = group.open()
    assert (opened.attempts, opened.state) == (1, "waiting")
    [again] = taken(group, 1)
    assert again.attempt == 2
    again.ack()
    again.ack()  # settled: nothing is done
    assert group.open() == []


def test_a_nack_takes_any_reason_but_no_delay_that_cannot_be(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish([b"one", b"two", b"three"])
    long, odd, wrong = taken(group, 3)
    long.nack(reason="\N{SNOWMAN}" * 20_000)
    odd.nack(reason="file \udcff")
    for delay_s in (-1, float("nan"), 10**9):
        with pytest.raises(tms.InvalidRequest) as refused:
            wrong.nack(delay_s)
        assert refused.value.problem.code == "invalid_group"

    assert wrong.settling.name == "HELD"
    wrong.ack()
    assert [each.attempts for each in group.open()] == [1, 1]


def test_what_a_loop_took_ahead_is_given_back_when_it_ends(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish([b"%d" % number for number in range(10)])

    for message in group.take(prefetch=10):
        message.ack()
        break

    wait_until(lambda: [each.state for each in group.open()] == ["available"] * 9)
    assert {each.attempts for each in group.open()} == {0}


def test_an_ack_is_refused_if_another_has_it(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish(b"one")
    [mine] = taken(group, 1)
    mine.nack(delay_s=0)
    [others] = taken(group, 1)

    assert mine.settling.name == "SETTLED"
    group.seek("start")
    with pytest.raises(tms.LeaseLost):
        others.ack()


def test_by_key_a_failed_message_takes_the_later_ones_of_its_key_along(topic: tms.Topic) -> None:
    group = topic.group("ordered")
    group.create(order="key")
    topic.publish([tms.Message(b"%d" % number, key=b"k%d" % (number % 2)) for number in range(6)])

    loop = group.take(prefetch=6)
    first = next(loop)
    first.nack(delay_s=1)
    rest = [next(loop) for _ in range(3)]
    for message in rest:
        message.ack()

    assert (first.payload, [message.payload for message in rest]) == (b"0", [b"1", b"3", b"5"])
    again = [next(loop).payload for _ in range(3)]
    assert again == [b"0", b"2", b"4"]


def test_leases_go_on_while_a_message_is_worked_on(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish(b"long")
    loop = group.take(lease_s=1)
    message = next(loop)
    time.sleep(2.5)

    assert [each.state for each in group.open()] == ["leased"]
    message.ack()


def test_a_message_that_is_held_for_too_long_is_left(
    topic: tms.Topic, group: tms.TopicGroup, caplog: pytest.LogCaptureFixture
) -> None:
    topic.publish(b"long")
    loop = group.take(lease_s=1, hold_s_max=0.1)
    message = next(loop)
    wait_until(lambda: group.open()[0].attempts == 1)

    assert "held for more than 0.1 s" in caplog.text
    assert message.payload == b"long"


def test_an_ack_goes_with_a_commit(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    bills = client.topic("bills")
    bills.create()
    topic.publish([b"one", b"two"])

    for message in taken(group, 2):
        with client.transaction() as tx:
            bills.publish(b"bill of " + message.payload, tx)
            message.ack(tx)
            assert len(group.open()) >= 1

    assert [each.payload for each in bills.poll()] == [b"bill of one", b"bill of two"]
    assert group.open() == []


def test_a_rollback_nacks_what_it_was_to_acknowledge(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"one")
    [message] = taken(group, 1)

    def work() -> None:
        with client.transaction() as tx:
            message.ack(tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    [opened] = group.open()
    assert (opened.attempts, opened.state) == (1, "waiting")


def test_a_commit_is_refused_with_an_ack_of_a_lost_message(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"one")
    [message] = taken(group, 1)
    group.seek("start")

    def work() -> None:
        with client.transaction() as tx:
            topic.publish(b"never", tx)
            message.ack(tx)

    with pytest.raises(tms.AckRefused):
        work()

    assert [each.payload for each in topic.poll(committed=True)] == [b"one"]


def test_a_worker_with_transactions_does_each_message_once(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    bills = client.topic("bills")
    bills.create()
    topic.publish([b"%d" % number for number in range(40)])
    failed: set[bytes] = set()

    @group.worker(concurrency=4, transaction=True)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        bills.publish(message.payload, tx)
        if message.payload.endswith(b"3") and message.payload not in failed:
            failed.add(message.payload)
            raise tms.Retry(delay_s=0)

    working = threading.Thread(target=bill.run)
    working.start()
    wait_until(lambda: len(list(bills.poll(committed=True))) == 40)
    wait_until(lambda: not group.open())
    bill.stop()
    working.join(10)

    assert not working.is_alive()
    done = [each.payload for each in bills.poll(committed=True)]
    assert sorted(done) == sorted(b"%d" % number for number in range(40))


def test_a_worker_has_one_message_of_a_key_at_a_time(topic: tms.Topic) -> None:
    group = topic.group("ordered")
    group.create(order="key")
    topic.publish([tms.Message(b"%d" % number, key=b"k%d" % (number % 3)) for number in range(30)])
    busy: set[bytes | None] = set()
    done: list[int] = []

    @group.worker(concurrency=8)
    def work(message: tms.GroupMessage) -> None:
        assert message.key not in busy
        busy.add(message.key)
        time.sleep(0.002)
        done.append(int(message.payload))
        busy.discard(message.key)

    working = threading.Thread(target=work.run)
    working.start()
    wait_until(lambda: len(done) == 30)
    work.stop()
    working.join(10)

    for key in range(3):
        mine = [number for number in done if number % 3 == key]
        assert mine == sorted(mine)


def test_a_worker_that_is_stopped_gives_the_rest_back(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish([b"%d" % number for number in range(10)])
    begun, go_on = threading.Event(), threading.Event()

    @group.worker(concurrency=1, stop_s=0.1)
    def work(message: tms.GroupMessage) -> None:
        begun.set()
        go_on.wait(10)

    working = threading.Thread(target=work.run)
    working.start()
    assert begun.wait(10)
    work.stop()
    working.join(10)
    assert {(each.state, each.attempts) for each in group.open()} == {("available", 0)}
    go_on.set()


def test_a_subscription_runs_its_reader(client: tms.Client, topic: tms.Topic) -> None:
    bills = client.topic("bills")
    bills.create()
    subscription = topic.subscription("reader")
    subscription.create()
    topic.publish([b"one", b"two"])

    class Enough(Exception):
        pass

    def bill(message: tms.Message, tx: tms.TransactionContext) -> None:
        if message.payload == b"stop":
            raise Enough
        bills.publish(message.payload, tx)

    def stop() -> None:
        wait_until(lambda: len(list(bills.poll(committed=True))) == 2)
        topic.publish(b"stop")

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Enough):
        subscription.run(bill, limit=2)
    stopping.join()

    assert [each.payload for each in bills.poll(committed=True)] == [b"one", b"two"]
    assert [each.payload for each in subscription.poll()] == [b"stop"]


def test_members_have_names_of_their_own(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish([b"one", b"two", b"three", b"four"])
    loops = [group.take(prefetch=1), group.take(prefetch=1)]
    assert {next(loop).payload for loop in loops} >= {b"one"}

    wait_until(lambda: [member.holds for member in group.members()] == [2, 2])


def test_a_worker_commits_nothing_for_a_message_that_it_has_lost(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    bills = client.topic("bills")
    bills.create()
    topic.publish(b"one")
    tried: list[int] = []

    @group.worker(transaction=True, lease_s=1)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        tried.append(message.delivery)
        bills.publish(b"try %d" % len(tried), tx)
        if len(tried) == 1:
            group.seek("start")
            wait_until(lambda: message.settling.name == "LOST")

    working = threading.Thread(target=bill.run)
    working.start()
    wait_until(lambda: len(tried) == 2 and not group.open())
    bill.stop()
    working.join(40)

    assert [each.payload for each in bills.poll(committed=True)] == [b"try 2"]


def test_acks_go_with_a_publish_to_several_topics(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    for name in ("bills", "audit"):
        client.topic(name).create()
    topic.publish([b"one", b"two"])
    given = tms.Message(b"\xff", key=b"k", headers={"h": b"\xfe"})

    first, second = taken(group, 2)
    client.publish_all({"bills": [b"bill", given], "audit": [b"\xff"]}, acks=[first, second])

    assert (first.settling.name, second.settling.name) == ("SETTLED", "SETTLED")
    assert group.open() == []
    plain, framed = client.topic("bills").poll()
    assert (plain.payload, framed.payload, framed.key) == (b"bill", b"\xff", b"k")
    assert framed.headers == {"h": b"\xfe"}
    assert [each.payload for each in client.topic("audit").poll()] == [b"\xff"]


def test_a_publish_is_refused_with_the_ack_of_a_message_that_is_settled_or_lost(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    client.topic("bills").create()
    topic.publish([b"one", b"two"])
    first, second = taken(group, 2)
    second.ack()

    with pytest.raises(tms.AckRefused) as refused:
        client.publish_all({"bills": b"bill"}, acks=[first, second])
    [told] = refused.value.detail["refused"]
    assert (told["id"], told["reason"]) == (second.id.hex(), "settled")
    assert first.settling.name == "HELD"
    group.seek("start")
    with pytest.raises(tms.AckRefused):
        client.publish_all({"bills": b"bill"}, acks=[first])

    assert list(client.topic("bills").poll()) == []
    again, _ = taken(group, 2)
    client.publish_all({"bills": b"bill"}, acks=[again])
    assert [each.payload for each in client.topic("bills").poll()] == [b"bill"]
