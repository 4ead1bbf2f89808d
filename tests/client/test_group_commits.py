"""Acks of a group's messages in commits, and in publishes to several topics."""

import pytest

import tms
from tests.client.taking import group, running, taken
from tests.waiting import wait_until

__all__ = ["group"]


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

    with running(bill):
        wait_until(lambda: len(list(bills.poll(committed=True))) == 40)
        wait_until(lambda: not group.open())
    done = [each.payload for each in bills.poll(committed=True)]
    assert sorted(done) == sorted(b"%d" % number for number in range(40))


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

    with running(bill):
        wait_until(lambda: len(tried) == 2 and not group.open())

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
