"""Messages with keys and headers in a client: mixed with others, and the same in every read."""

from pathlib import Path
from typing import Any

import pytest

import tms
from tms.core.values.message import tombstone

MIXED = [
    tms.Message(b"payload alone"),
    tms.Message(b"with a key", b"k1"),
    tms.Message(b"with headers", None, {"trace": b"\x00\xff", "ä": b""}),
    tms.Message(b"", b"", {"empty": b""}),
    tms.Message(b"payload alone again"),
    tombstone(b"k1", {"why": b"gone"}),
    tms.Message(b"x" * 9_000, b"k" * 300),
]


def contents(messages: Any) -> list[tms.Message]:
    return [message._replace(id=b"") for message in messages]


def test_what_is_published_is_polled(topic: tms.Topic) -> None:
    published = topic.publish(MIXED)
    one = topic.publish(tms.Message(b"one", b"k2"))

    found = list(topic.poll())
    assert contents(found) == [*MIXED, tms.Message(b"one", b"k2")]
    assert [message.id for message in found] == [*published, *one]
    assert contents(topic.poll(after=published[3])) == [*MIXED[4:], tms.Message(b"one", b"k2")]
    assert contents(topic.poll(start=published[2], limit=2)) == MIXED[2:4]
    assert contents([next(topic.follow(after=published[4]))]) == [MIXED[5]]


def test_a_message_that_was_polled_is_published_again_as_it_is(topic: tms.Topic) -> None:
    topic.publish(MIXED)
    first = list(topic.poll())
    topic.publish(first)

    assert contents(topic.poll(after=first[-1])) == MIXED


def test_a_transaction_publishes_and_stores_them(client: tms.Client, topic: tms.Topic) -> None:
    with client.transaction() as tx:
        topic.publish(MIXED, tx)
        assert contents(topic.poll(tx=tx)) == MIXED
        assert contents(topic.poll(committed=True)) == []
    with client.transaction() as tx:
        topic.publish(MIXED[:3], tx, buffer=True)
        topic.publish(MIXED[3:], tx, buffer=True)
    with client.transaction() as tx:
        topic.publish(tms.Message(b"rolled back", b"k"), tx)
        tx.abort()

    found = list(topic.poll(committed=True))
    assert contents(found) == [*MIXED, *MIXED]
    assert contents(topic.poll())[-1] == tms.Message(b"rolled back", b"k")
    for index, message in enumerate(found):
        assert contents(topic.poll(after=message, limit=1, committed=True)) == contents(
            found[index + 1 : index + 2]
        )


def test_ranges_and_columns_have_them(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish(MIXED * 20)
    with client.transaction() as tx:
        topic.publish(MIXED * 20, tx, buffer=True)
    start, end, _ = topic.range()
    splits = topic.splits(start, end, 4)

    found = [m for split in splits for m in topic.poll(start=split.start, end=split.end)]
    assert contents(found) == MIXED * 40
    assert topic.reach(start, end, messages=30).messages == 30
    rows = [row for batch in topic.poll_arrow() for row in batch.to_pylist()]
    assert [row["key"] for row in rows] == [message.key for message in MIXED * 40]
    assert [dict(row["headers"] or ()) for row in rows] == [dict(m.headers) for m in MIXED * 40]
    assert [row["payload"] is None for row in rows] == [m.is_tombstone for m in MIXED * 40]


def test_several_topics_get_them_at_once(client: tms.Client, topic: tms.Topic) -> None:
    other = client.topic("other")
    other.create()
    client.publish_all({"orders": MIXED, "other": b"alone"})

    assert contents(topic.poll()) == MIXED
    assert contents(other.poll()) == [tms.Message(b"alone")]


def test_a_subscription_gives_them(topic: tms.Topic) -> None:
    topic.publish(MIXED)
    subscription = topic.subscription("s")
    subscription.create()

    assert contents(subscription.poll()) == MIXED


def test_they_are_there_after_a_restart(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        client.topic("t").create()
        client.topic("t").publish(MIXED)
        with client.transaction() as tx:
            client.topic("t").publish(MIXED, tx, buffer=True)
    with tms.connect(url) as client:
        topic = client.topic("t")
        found = list(topic.poll())
        assert contents(found) == [*MIXED, *MIXED]
        for index, message in enumerate(found):
            behind = topic.poll(after=message)
            assert contents(behind) == contents(found[index + 1 :])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("text", "encode it first"),
        (tms.Message("text"), "a payload is bytes"),  # type: ignore[arg-type]
        (tms.Message(b"p", "key"), "a key is bytes"),  # type: ignore[arg-type]
        (tms.Message(b"p", None, {"a": "1"}), "headers are"),  # type: ignore[dict-item]
        (tms.Message(b"p", None, {b"a": b"1"}), "headers are"),  # type: ignore[dict-item]
        (tms.Message(b"p", None, [("a", b"1")]), "headers are"),  # type: ignore[arg-type]
    ],
)
def test_other_types_are_refused_and_nothing_is_sent(
    topic: tms.Topic, message: Any, reason: str
) -> None:
    with pytest.raises(TypeError, match=reason):
        topic.publish([tms.Message(b"fine", b"k"), message])
    with pytest.raises(ValueError, match="no payload"):
        topic.publish(tms.Message(b"p", b"k", is_tombstone=True))
    assert list(topic.poll()) == []


def test_large_keys_and_many_headers_are_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.TooLarge, match="frame_bytes_max") as caught:
        topic.publish([b"fine", tms.Message(b"p", b"k" * 20_000)])
    assert caught.value.problem.code == "frame_too_large"
    with pytest.raises(tms.TooLarge, match="message_headers_max") as caught:
        topic.publish(tms.Message(b"p", None, {str(n): b"" for n in range(101)}))
    assert caught.value.problem.code == "too_many_headers"
    topic.publish(tms.Message(b"p", b"k" * 15_000, {str(n): b"" for n in range(100)}))
    assert len(list(topic.poll())) == 1
