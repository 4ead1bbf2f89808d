"""A trimmed topic returns nothing older than the trim, and everything newer."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tms
from tests.client.taking import wait_for_next_millisecond


def payloads(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll()]


def published(topic: tms.Topic, *given: bytes) -> list[tms.Message]:
    """Publish messages, each in a millisecond of its own."""
    for payload in given:
        topic.publish(payload)
        wait_for_next_millisecond(topic)
    return list(topic.poll())


def test_what_is_older_is_gone(topic: tms.Topic) -> None:
    messages = published(topic, b"a", b"b", b"c", b"d", b"e")

    topic.trim(messages[1])
    assert payloads(topic) == [b"b", b"c", b"d", b"e"]
    assert topic.range().start >= messages[1].id[:8]
    topic.trim(messages[2].publish_timestamp)
    topic.trim(messages[1].id.hex())
    assert payloads(topic) == [b"c", b"d", b"e"]
    topic.trim(datetime.fromtimestamp(messages[3].publish_timestamp / 1000, UTC))
    assert payloads(topic) == [b"d", b"e"]
    topic.trim(datetime.now(UTC))
    assert payloads(topic) == []
    topic.publish(b"f", if_last=messages[4])
    assert payloads(topic) == [b"f"]


def test_it_lasts(topic: tms.Topic) -> None:
    messages = published(topic, b"a", b"b")
    topic.trim(messages[1])
    topic.replace_properties(ttl=1_000_000, cleanup="delete")

    assert payloads(topic) == [b"b"]
    assert topic.properties() == {"cleanup": "delete", "generation": "1", "ttl": "1000000"}


def test_it_lasts_over_a_restart_but_not_into_a_new_generation(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        client.topic("t").create()
        messages = published(client.topic("t"), b"a", b"b")
        client.topic("t").trim(messages[1])
    with tms.connect(url) as client:
        topic = client.topic("t")
        assert payloads(topic) == [b"b"]
        topic.delete()
        topic.create()
        topic.publish(b"new")
        assert payloads(topic) == [b"new"]


def test_a_time_to_come_is_refused(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish(b"a")
    for to_come in (2**62, tms.MessageId(2**62, 0)):
        with pytest.raises(tms.InvalidTrimTime, match="in the past"):
            topic.trim(to_come)
    with pytest.raises(tms.TopicNotFound):
        client.topic("absent").trim(5)
    assert payloads(topic) == [b"a"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cleanup", "never", "compact"),
        ("cleanup", "Compact", "compact"),
        ("tombstone_s", "-1", "seconds"),
        ("tombstone_s", "1 day", "seconds"),
        ("tombstone_s", "9" * 18, "seconds"),
        ("retention_bytes", "0", "number"),
        ("retention_messages", "many", "number"),
        ("retention_of_mine", "x", "reserved"),
        ("schema_of_mine", "x", "reserved"),
        ("tms.of_mine", "x", "reserved"),
        ("subject", "", "subject of the registry"),
        ("key_subject", "a\nb", "subject of the registry"),
        ("subject_strategy", "mine", "topic_record"),
        ("schema_check", "yes", "full"),
    ],
)
def test_properties_without_a_meaning_are_refused(
    client: tms.Client, topic: tms.Topic, name: str, value: Any, reason: str
) -> None:
    with pytest.raises(tms.InvalidRequest, match=reason) as caught:
        topic.replace_properties(**{name: value})
    assert caught.value.problem.code == "invalid_properties"
    with pytest.raises(tms.InvalidRequest, match=name):
        client.topic("other").create(**{name: value})
    assert topic.properties() == {"generation": "1", "ttl": "604800"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup", "delete"),
        ("cleanup", "compact"),
        ("tombstone_s", "0"),
        ("retention_bytes", "5"),
        ("retention_messages", "100000"),
        ("subject", ":.ctx:orders-value"),
        ("key_subject", "orders-key"),
        ("subject_strategy", "record"),
        ("schema_check", "full"),
    ],
)
def test_properties_with_a_meaning_are_kept(
    client: tms.Client, topic: tms.Topic, name: str, value: str
) -> None:
    topic.replace_properties(**{name: value})
    assert topic.properties()[name] == value
    topic.replace_properties()
    assert name not in topic.properties()
