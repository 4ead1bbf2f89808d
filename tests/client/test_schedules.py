"""`topic.schedule` of both clients, in this process and over REST."""

from datetime import UTC, datetime, timedelta

import pytest

import tms
from tests.waiting import wait_until


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
        topic.schedule(b"a", at=datetime(2030, 1, 1))  # noqa: DTZ001  that is what is wrong
    with pytest.raises(TypeError):
        topic.schedule(b"a", at="2030-01-01")  # type: ignore[arg-type]
    for after in (-1, float("nan"), float("inf"), "60d"):
        with pytest.raises(tms.InvalidRequest):
            topic.schedule(b"a", after=after)
    assert topic.scheduled() == []
