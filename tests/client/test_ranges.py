"""Ranges of topics in the client: on a server, and on a store in the process."""

from typing import Any

import pyarrow as pa
import pytest

import tms
from tms.arrow.polled import SCHEMA
from tms.core.values.topic import TopicId


def payloads(topic: tms.Topic, **asked: Any) -> list[bytes]:
    return [message.payload for message in topic.poll(**asked)]


def test_a_range_is_read_in_parts(topic: tms.Topic) -> None:
    topic.publish([b"%d" % number for number in range(1000)])
    start, end, generation = topic.range()
    topic.publish(b"later")

    reached = topic.reach(start, end, messages=300)
    rest = topic.splits(reached.end, end, 3)

    assert generation == 1
    assert (reached.messages, reached.payload_bytes) == (300, 10 + 90 * 2 + 200 * 3)
    assert 1 <= len(rest) <= 3
    parts = [(start, reached.end), *((split.start, split.end) for split in rest)]
    found = [p for low, high in parts for p in payloads(topic, start=low, end=high)]
    assert found == [b"%d" % number for number in range(1000)]


def test_messages_themselves_are_the_ends_of_a_range(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two", b"three"])
    one, two, three = topic.poll()

    assert payloads(topic, start=two, end=three) == [b"two"]
    assert payloads(topic, after=one) == [b"two", b"three"]
    assert next(topic.follow(after=two)) == three
    assert topic.reach(one, three).messages == 2
    assert topic.reach(tms.MessageId.decode(one.id), three.id.hex()).messages == 2
    assert [(split.start, split.end) for split in topic.splits(one, three, 1)] == [
        (one.id, three.id)
    ]


def test_a_reader_follows_from_the_present_end(topic: tms.Topic) -> None:
    for earlier in ((), (b"one", b"two")):
        if earlier:
            topic.publish(earlier)
        messages = topic.follow(start=topic.range(committed=False).end)
        topic.publish(b"new")
        assert next(messages).payload == b"new"


def test_what_is_in_progress_is_behind_the_end(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish(b"before")
    end = topic.range().end
    with client.transaction() as tx:
        topic.publish(b"in progress", tx)
        held = topic.range().end
        assert payloads(topic, end=held) == [b"before"]
        assert payloads(topic, end=topic.range(committed=False).end) == [b"before", b"in progress"]
        assert topic.reach(end, b"\x7f" * 20).messages == 0

    assert topic.range().end > held >= end
    assert client.ranges(["orders", "none"]) == {"orders": topic.range(), "none": None}


def test_a_topic_that_is_not_there_has_no_range(client: tms.Client) -> None:
    missing = client.topic("missing")
    for call in (
        missing.range,
        lambda: missing.reach(bytes(20), bytes(20)),
        lambda: missing.splits(bytes(20), bytes(20), 2),
    ):
        with pytest.raises(tms.TopicNotFound):
            call()
    assert client.ranges(["missing"]) == {"missing": None}


def test_wrong_ranges(topic: tms.Topic) -> None:
    for call in (
        lambda: topic.reach(b"\x01" * 20, bytes(20)),
        lambda: topic.reach(bytes(20), bytes(20), messages=0),
        lambda: topic.splits(bytes(20), bytes(20), 0),
    ):
        with pytest.raises(tms.InvalidRequest) as caught:
            call()
        assert caught.value.problem.code == "invalid_range"
    with pytest.raises(ValueError, match="end"):
        next(topic.poll(end=bytes(20), wait_s=1))


def test_messages_come_as_columns(topic: tms.Topic) -> None:
    messages = [b"%d" % number for number in range(25_000)]
    topic.publish(messages)
    start, end, _ = topic.range()

    batches = list(topic.poll_arrow(start=start, end=end, committed=True))

    table = pa.Table.from_batches(batches)
    assert table.schema.equals(SCHEMA)
    assert table.column("payload").to_pylist() == messages
    assert len(batches) < 10
    last = bytes(table.column("message_id")[-1].as_py())
    assert list(topic.poll_arrow(after=last)) == []


def test_columns_are_given_as_a_transaction_sees_them(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish(b"seen")
    with client.transaction() as tx, client.transaction() as other:
        topic.publish(b"its own", tx)
        topic.publish(b"another's", other)
        [seen] = topic.poll_arrow(tx=tx, wait_s=0.1)
        [committed] = topic.poll_arrow(committed=True)
    assert seen.column("payload").to_pylist() == [b"seen", b"its own"]
    assert committed.column("payload").to_pylist() == [b"seen"]


def test_a_commit_publishes_what_was_stored(client: tms.Client, topic: tms.Topic) -> None:
    request = tms.StartRequest(owner="job", sequence=1, origin="run 1", namespace=client.namespace)
    transaction = client.transactions.start(request).transaction_id
    kept, lost = [client.transactions.checkpoint(transaction).write_pointer for _ in range(2)]
    topic.store([b"kept"], kept)
    topic.store([b"lost"], lost)
    stored = tms.Stored(TopicId(topic.namespace, topic.name), kept)

    wrong = stored._replace(write_pointer=5)
    with pytest.raises(tms.PublicationRefused):
        client.transactions.commit(transaction, tms.CommitRequest(publish=[wrong]))
    client.transactions.commit(transaction, tms.CommitRequest(publish=[stored]))

    assert payloads(topic, committed=True) == [b"kept"]
    with pytest.raises(tms.TransactionDuplicate):
        client.transactions.start(request)
    with (
        pytest.raises(tms.OwnerElsewhere) as caught,
        client.transaction(owner="job", sequence=1, origin="run 2"),
    ):
        pass
    assert caught.value.detail["committed_origin"] == "run 1"
