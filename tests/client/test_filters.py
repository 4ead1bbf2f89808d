"""Clients read the messages that match a filter, and continue after those that do not."""

import threading

import pytest

import tms
from tests.waiting import wait_until
from tms.client.topics import subscription_loop
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


def test_a_subscription_moves_past_what_does_not_match(
    client: tms.Client, topic: tms.Topic
) -> None:
    reader = topic.subscription("reader")
    reader.create()
    assert payloads(reader.poll(filter=FILTER)) == []
    assert reader.passed is None
    publish(topic, "b1", "b2")
    assert payloads(reader.poll(filter=FILTER)) == []
    b2 = list(topic.poll())[-1]
    assert reader.passed == b2.id
    reader.advance(reader.passed)
    publish(topic, "a1", "b3", "a2", "b4")
    assert payloads(reader.poll(1, filter=FILTER)) == ["a1"]
    a1 = next(topic.poll(after=b2, limit=1))
    assert reader.passed == a1.id
    with client.transaction() as tx:
        assert payloads(reader.poll(tx=tx, filter=FILTER)) == ["a1", "a2"]
        reader.advance(reader.passed, tx)
    assert reader.position().after == list(topic.poll())[-1].id
    assert payloads(reader.poll()) == []


def test_a_loop_gets_what_matches_and_moves_past_the_rest(
    topic: tms.Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_loop, "WAIT_S", 0.01)
    reader = topic.subscription("reader")
    reader.create()
    publish(topic, "b1")
    seen: list[bytes] = []

    def handle(message: tms.Message, _: object) -> None:
        seen.append(message.payload)
        if message.payload == b"a2":
            raise LookupError

    def publish_once_moved() -> None:
        wait_until(lambda: reader.position().after is not None)
        publish(topic, "a1", "b2", "a2")

    publisher = threading.Thread(target=publish_once_moved)
    publisher.start()
    with pytest.raises(LookupError):
        topic.subscription("reader").run(handle, limit=1, filter=FILTER)
    publisher.join()
    assert seen == [b"a1", b"a2"]
