"""Groups as programs use them: take loops, settling, workers, acks in transactions."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import tms
from tests.client.taking import group, running, taken, wait_for_next_millisecond
from tests.waiting import WAIT_S_MAX, wait_until
from tms.client.groups.held_deliveries import EXTENDS_PER_LEASE
from tms.client.groups.held_messages import HeldMessages
from tms.core.values.groups import Settle, Settled

__all__ = ["group"]

TAKES_SECONDS = pytest.mark.parametrize(
    "store_kind",
    [
        "memory",
        "server",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("leveldb", "shards")),
    ],
)
"""Tests that spend the real time of a lease or a retry."""


def test_a_loop_acknowledges_what_its_body_did(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish([b"%d" % number for number in range(30)])

    done = []
    for message in taken(group, 30):
        with message:
            done.append(message.payload)

    assert done == [b"%d" % number for number in range(30)]
    assert (group.show().state.open, group.show().state.unread) == (0, 0)


@pytest.mark.parametrize("behind", ["time", "datetime", "id", "end", "start"])
def test_a_group_begins_at_the_given_place(topic: tms.Topic, behind: str) -> None:
    topic.publish(b"before")
    [first] = topic.poll()
    wait_for_next_millisecond(topic)
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


def test_a_group_is_not_a_position_of_one_reader(topic: tms.Topic, group: tms.TopicGroup) -> None:
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


@TAKES_SECONDS
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


@TAKES_SECONDS
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


@TAKES_SECONDS
def test_leases_continue_while_a_message_is_worked_on(
    topic: tms.Topic, group: tms.TopicGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, extended = HeldMessages._send, []

    async def noting(held: HeldMessages, settle: Settle) -> Settled:
        extended.append(settle.extend)
        return await send(held, settle)

    monkeypatch.setattr(HeldMessages, "_send", noting)
    topic.publish(b"long")
    loop = group.take(lease_s=2)
    message = next(loop)
    wait_until(lambda: len(extended) > EXTENDS_PER_LEASE)

    assert [each.state for each in group.open()] == ["leased"]
    message.ack()


@TAKES_SECONDS
def test_a_message_that_is_held_for_too_long_is_left(
    topic: tms.Topic, group: tms.TopicGroup, caplog: pytest.LogCaptureFixture
) -> None:
    topic.publish(b"long")
    loop = group.take(lease_s=1, hold_s_max=0.1)
    message = next(loop)
    wait_until(lambda: group.open()[0].attempts == 1)

    assert "held for more than 0.1 s" in caplog.text
    assert message.payload == b"long"


def test_a_worker_has_one_message_of_a_key_at_a_time(topic: tms.Topic) -> None:
    group = topic.group("ordered")
    group.create(order="key")
    topic.publish([tms.Message(b"%d" % number, key=b"k%d" % (number % 3)) for number in range(30)])
    busy: set[bytes | None] = set()
    others = threading.Barrier(3)
    done: list[int] = []

    @group.worker(concurrency=8)
    def work(message: tms.GroupMessage) -> None:
        assert message.key not in busy
        busy.add(message.key)
        others.wait(WAIT_S_MAX)
        done.append(int(message.payload))
        busy.discard(message.key)

    with running(work):
        wait_until(lambda: len(done) == 30)

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
        go_on.wait(WAIT_S_MAX)

    with running(work):
        assert begun.wait(WAIT_S_MAX)
    left = group.open()
    go_on.set()
    assert {(each.state, each.attempts) for each in left} == {("available", 0)}


def test_a_worker_that_is_stopped_as_it_starts_ends(group: tms.TopicGroup) -> None:
    @group.worker()
    def work(message: tms.GroupMessage) -> None:
        pass

    working = threading.Thread(target=work.run, daemon=True)
    work.stop()
    working.start()
    working.join(WAIT_S_MAX)
    assert not working.is_alive()


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
