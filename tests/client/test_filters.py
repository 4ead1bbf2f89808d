"""Clients read the messages that match a filter, and continue after those that do not."""

import pytest

import tms
from tms.core.errors import InvalidRequest

FILTER = 'key ^= "a" and not header.test exists'


def publish(topic: tms.Topic, *keys: str) -> None:
    topic.publish([tms.Message(key.encode(), key.encode()) for key in keys])


def payloads(messages: object) -> list[str]:
    return [message.payload.decode() for message in messages]  # type: ignore[attr-defined]


def test_a_poll_returns_what_matches(topic: tms.Topic) -> None:
    publish(topic, "a1", "b1", "a2", "b2", "a3")
    topic.publish(b"plain")

    assert payloads(topic.poll(filter=FILTER)) == ["a1", "a2", "a3"]
    assert payloads(topic.poll(filter=FILTER, limit=2)) == ["a1", "a2"]
    assert payloads(topic.poll(filter=FILTER, committed=True)) == ["a1", "a2", "a3"]
    assert payloads(topic.poll(filter="not key exists")) == ["plain"]
    assert payloads(topic.poll(filter='key = "none"', wait_s=0.1)) == []
    batches = topic.poll_arrow(filter=FILTER)
    assert [row for batch in batches for row in batch["key"].to_pylist()] == [b"a1", b"a2", b"a3"]


def test_a_bad_filter_is_refused_before_anything_is_sent(topic: tms.Topic) -> None:
    with pytest.raises(InvalidRequest, match="position=1"):
        topic.poll(filter="payload exists")


def test_a_transaction_sees_its_own_messages_that_match(
    client: tms.Client, topic: tms.Topic
) -> None:
    with client.transaction() as tx:
        topic.publish([tms.Message(b"a", b"a"), tms.Message(b"b", b"b")], tx)
        assert payloads(topic.poll(tx=tx, filter=FILTER)) == ["a"]


def test_a_reader_follows_what_matches(topic: tms.Topic) -> None:
    publish(topic, "b1", "a1", "b2")
    followed = topic.follow(filter=FILTER)
    assert next(followed).payload == b"a1"
    publish(topic, "b3", "a2")
    assert next(followed).payload == b"a2"
