"""`topic.schedule` of both clients, in this process and over REST."""

from datetime import UTC, datetime, timedelta

import pytest

import tms
from tests.client.taking import group, running, taken
from tests.waiting import wait_until
from tms.core.values.topic import TopicId

__all__ = ["group"]


def payloads(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll()]


def test_messages_are_published_after_a_time(topic: tms.Topic) -> None:
    topic.schedule([b"a", tms.Message(b"b", key=b"k")], after=0)
    wait_until(lambda: payloads(topic) == [b"a", b"b"])
    assert [message.key for message in topic.poll()] == [None, b"k"]


def test_messages_are_listed_and_cancelled(topic: tms.Topic) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    [later] = topic.schedule(b"later", at=at, key=b"k", headers={"trace": b"7f"})
    [soon] = topic.schedule(b"soon", after="30m")
    first, second = topic.scheduled()
    assert (first.id, first.message.payload) == (soon, b"soon")
    assert second.id == later
    assert abs(second.at_ms - at.timestamp() * 1000) <= 1
    assert second.message == tms.Message(b"later", b"k", {"trace": b"7f"})
    assert topic.scheduled(limit=1) == [first]
    assert topic.scheduled(after=first.id) == [second]
    topic.cancel_scheduled(soon)
    with pytest.raises(tms.ScheduledNotFound):
        topic.cancel_scheduled(soon)
    assert topic.scheduled() == [second]
    assert payloads(topic) == []


def test_a_published_message_cannot_be_cancelled(topic: tms.Topic) -> None:
    [scheduled] = topic.schedule(b"a", at=datetime(2020, 1, 1, tzinfo=UTC))
    wait_until(lambda: payloads(topic) == [b"a"])
    with pytest.raises(tms.ScheduledNotFound):
        topic.cancel_scheduled(scheduled)


def test_wrong_times_are_refused(topic: tms.Topic) -> None:
    with pytest.raises(ValueError, match="either at or after"):
        topic.schedule(b"a")
    with pytest.raises(ValueError, match="either at or after"):
        topic.schedule(b"a", after=1, at=1)
    with pytest.raises(ValueError, match="time zone"):
        topic.schedule(b"a", at=datetime(2030, 1, 1))  # noqa: DTZ001  the time zone is missing
    with pytest.raises(TypeError):
        topic.schedule(b"a", at="2030-01-01")  # type: ignore[arg-type]
    for after in (-1, float("nan"), float("inf"), "60d"):
        with pytest.raises(tms.InvalidRequest):
            topic.schedule(b"a", after=after)
    assert topic.scheduled() == []


def test_messages_are_scheduled_if_the_transaction_commits(
    client: tms.Client, topic: tms.Topic
) -> None:
    other = client.topic("other")
    other.create()
    with client.transaction() as tx:
        topic.publish(b"now", tx)
        assert topic.schedule([b"b", tms.Message(b"c", key=b"k")], tx, after="2h") == []
        topic.schedule(b"a", tx, after="1h")
        other.schedule(b"\xff", tx, at=datetime.now(UTC) + timedelta(hours=1))
        assert topic.scheduled() == []
    assert [each.message.payload for each in topic.scheduled()] == [b"a", b"b", b"c"]
    assert [each.message.payload for each in other.scheduled()] == [b"\xff"]

    def work() -> None:
        with client.transaction() as tx:
            other.schedule(b"never", tx, after=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert len(other.scheduled()) == 1
    assert payloads(other) == []
    with pytest.raises(RuntimeError):
        other.schedule(b"too late", tx, after=0)


def test_a_refused_commit_schedules_nothing(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"one")
    [message] = taken(group, 1)
    group.seek("start")

    def lost() -> None:
        with client.transaction() as tx:
            topic.schedule(b"never", tx, after="1h")
            message.ack(tx)

    def too_far() -> None:
        with client.transaction() as tx:
            topic.publish(b"never", tx)
            topic.schedule(b"never", tx, after="60d")

    with pytest.raises(tms.AckRefused):
        lost()
    with pytest.raises(tms.InvalidRequest):
        too_far()
    assert topic.scheduled() == []
    assert [each.payload for each in topic.poll(committed=True)] == [b"one"]


def test_a_worker_schedules_its_next_message_with_its_ack(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    failed: list[bytes] = []

    @group.worker(transaction=True)
    def again(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        number = int(message.payload)
        if number < 5:
            topic.schedule(b"%d" % (number + 1), tx, after=0)
        if not failed:
            failed.append(message.payload)
            raise tms.Retry(delay_s=0)

    topic.publish(b"0")
    with running(again):
        wait_until(lambda: len(payloads(topic)) == 6 and not group.open())
    assert payloads(topic) == [b"%d" % number for number in range(6)]


def test_messages_are_scheduled_by_a_commit_of_the_programs_own(
    client: tms.Client, topic: tms.Topic
) -> None:
    later = tms.CommitSchedule(
        TopicId(topic.namespace, topic.name), [b"a"], tms.DeliveryTime(after_s=0)
    )
    started = client.transactions.start(tms.StartRequest())
    client.transactions.commit(started.transaction_id, tms.CommitRequest(schedule=[later]))
    wait_until(lambda: payloads(topic) == [b"a"])
