"""`if_last`: a publish succeeds only if the publisher has seen all existing messages."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tms


def payloads(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll()]


def refused(topic: tms.Topic, if_last: tms.Message | bytes | str) -> str | None:
    """Return the last id that the refusal names."""
    before = payloads(topic)
    with pytest.raises(tms.TopicMoved) as caught:
        topic.publish([b"not", b"these"], if_last=if_last)
    assert payloads(topic) == before
    last_id: str | None = caught.value.detail["last_id"]
    return last_id


def test_only_the_last_message_will_do(topic: tms.Topic) -> None:
    first = topic.publish([b"a", b"b"], if_last="empty")
    second = topic.publish([b"c", b"d"], if_last=first[-1])
    for earlier in (first[0], first[1].hex(), second[0], "empty"):
        assert refused(topic, earlier) == second[1].hex()
    last = list(topic.poll())[-1]
    third = topic.publish(b"e", if_last=last)
    topic.publish(b"f", if_last=tms.MessageId.decode(third[0]))
    topic.publish(b"g", if_last=tms.MessageId(2**62, 0))

    assert payloads(topic) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_a_topic_without_entries_takes_only_empty(topic: tms.Topic) -> None:
    assert refused(topic, tms.MessageId(2**62, 0)) is None  # type: ignore[arg-type]
    topic.publish(b"first", if_last="empty")
    refused(topic, "empty")


def test_a_new_generation_has_no_entries(topic: tms.Topic) -> None:
    [old] = topic.publish(b"old")
    topic.delete()
    topic.create()
    assert refused(topic, old) is None
    topic.publish(b"new", if_last="empty")

    assert payloads(topic) == [b"new"]


def test_every_entry_counts(client: tms.Client, topic: tms.Topic) -> None:
    [plain] = topic.publish(b"plain")
    with client.transaction() as tx:
        [own] = topic.publish(b"in progress", tx, if_last=plain)
        assert refused(topic, plain) == own.hex()
        topic.publish(b"its own", tx, if_last=own)
        tx.abort()
    last = list(topic.poll())[-1]
    assert refused(topic, plain) == last.id.hex()
    topic.publish(b"behind what was rolled back", if_last=last)


def test_what_was_stored_counts_to_its_last_message(client: tms.Client, topic: tms.Topic) -> None:
    with client.transaction() as tx:
        topic.publish([b"a", b"b", b"c"], tx, buffer=True)
        with pytest.raises(ValueError, match="not buffered"):
            topic.publish(b"x", tx, buffer=True, if_last="empty")
    stored = [message.id for message in topic.poll()]
    assert refused(topic, stored[0]) == stored[1].hex()
    assert refused(topic, stored[1]) == stored[2].hex()
    topic.publish(b"d", if_last=stored[2])
    refused(topic, stored[2])


def test_of_many_at_once_one_is_first(topic: tms.Topic) -> None:
    [last] = topic.publish(b"start")
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):

            def attempt(who: int, last: bytes = last, number: int = number) -> bool:
                try:
                    topic.publish(b"%d %d" % (number, who), if_last=last)
                except tms.TopicMoved:
                    return False
                return True

            assert sum(pool.map(attempt, range(8))) == 1
            [message] = topic.poll(after=last)
            last = message.id


def test_it_holds_after_a_restart(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        client.topic("t").create()
        client.topic("empty").create()
        [last] = client.topic("t").publish(b"before")
    with tms.connect(url) as client:
        topic = client.topic("t")
        refused(topic, "empty")
        refused(topic, tms.MessageId(1, 0).encode())
        topic.publish(b"after", if_last=last)
        client.topic("empty").publish(b"first", if_last="empty")


def test_what_is_not_an_id_is_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.InvalidRequest):
        topic.publish(b"x", if_last="full")
    with pytest.raises(tms.InvalidRequest):
        topic.publish(b"x", if_last=b"")
    with pytest.raises(TypeError):
        topic.publish(b"x", if_last=5)  # type: ignore[arg-type]
    assert payloads(topic) == []
