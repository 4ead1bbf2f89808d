"""Topics behave the same over every transport."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import tms
from tests.client.taking import wait_for_next_millisecond
from tests.servers.server_process import SHARDS
from tests.waiting import WAIT_S_MAX


def payloads(messages: Iterable[tms.Message]) -> list[bytes]:
    return [message.payload for message in messages]


def write_pointer() -> int:
    return int(time.time() * 1000) * 1_000_000


def seeing(read_pointer: int, **rest: object) -> tms.Transaction:
    """A transaction that begins now, in the same shard as the one with this read pointer."""
    pointer = write_pointer() + 999_999
    pointer -= (pointer - read_pointer) % SHARDS
    return tms.Transaction(
        read_pointer=read_pointer,
        transaction_id=pointer,
        write_pointer=pointer,
        **rest,  # type: ignore[arg-type]
    )


@pytest.fixture
def pointer(client: tms.Client) -> Iterator[int]:
    """Return the write pointer of a transaction in progress, for tests that use no context."""
    with client.transaction() as tx:
        yield tx.write_pointer
        tx.abort()


def test_a_topic_is_created_described_changed_and_deleted(client: tms.Client) -> None:
    topic = client.topic("a-topic_1")
    topic.create(ttl=3600, owner="shop", weight=2.5)

    assert topic.properties() == {
        "generation": "1",
        "owner": "shop",
        "ttl": "3600",
        "weight": "2.5",
    }

    topic.replace_properties(self="is a name too")

    assert topic.properties() == {"generation": "1", "self": "is a name too", "ttl": "604800"}

    topic.delete()

    with pytest.raises(tms.TopicNotFound):
        topic.properties()

    topic.create()

    assert topic.properties()["generation"] == "2"


def test_a_ttl_and_a_timeout_are_durations(client: tms.Client) -> None:
    topic = client.topic("orders")
    for given, kept in (("12h", "43200"), (timedelta(days=7), "604800"), (5, "5"), ("5", "5")):
        topic.create(ttl=given)
        assert topic.properties()["ttl"] == kept
        topic.replace_properties(ttl="1h30m")
        assert topic.properties()["ttl"] == "5400"
        topic.delete()
    with pytest.raises(ValueError, match="'soon' is not a valid duration"):
        topic.create(ttl="soon")
    with client.transaction(timeout_s="2m") as tx:
        info = client.transactions.info(tx.transaction_id)
    assert info.expires_ms is not None
    assert info.expires_ms - info.started_ms == pytest.approx(120_000, abs=5)


def test_topics_are_those_of_the_clients_namespace(client: tms.Client) -> None:
    assert client.topics() == []

    for name in ("b", "a"):
        client.topic(name).create()

    assert client.topics() == ["a", "b"]


def test_a_topic_shows_its_name(client: tms.Client, namespace: str) -> None:
    topic = client.topic("orders")

    assert (topic.name, topic.namespace) == ("orders", namespace)
    assert repr(topic) == f"Topic({namespace}:orders)"
    assert client.namespace == namespace


def test_refusals_have_their_type_code_and_detail(client: tms.Client, topic: tms.Topic) -> None:
    with pytest.raises(tms.TopicExists) as exists:
        topic.create()
    with pytest.raises(tms.InvalidRequest) as invalid:
        client.topic("other").create(ttl=0)

    assert exists.value.detail["topic"].endswith(":orders")
    assert invalid.value.problem.code == "invalid_ttl"


def test_everything_but_create_needs_the_topic(client: tms.Client, pointer: int) -> None:
    none = client.topic("none")
    published = tms.RollbackRange(pointer, 1, 0, 1, 0)
    for call in (
        none.properties,
        none.replace_properties,
        none.delete,
        lambda: none.publish(b"x"),
        lambda: none.store(b"x", pointer),
        lambda: none.rollback(published),
        lambda: list(none.poll()),
        lambda: next(none.follow()),
    ):
        with pytest.raises(tms.TopicNotFound):
            call()


def test_a_publish_returns_the_ids_of_its_messages(client: tms.Client, topic: tms.Topic) -> None:
    plain = topic.publish([b"one", b"two"])
    alone = topic.publish(b"three")
    with client.transaction() as tx:
        direct = topic.publish(b"four", tx)
        buffered = topic.publish([b"five", b"six"], tx, buffer=True)

    messages = list(topic.poll())
    assert payloads(messages) == [b"one", b"two", b"three", b"four", b"five", b"six"]
    assert [*plain, *alone, *direct] == [message.id for message in messages[:4]]
    assert (len(plain), len(alone), len(direct)) == (2, 1, 1)
    assert (plain.rollback_range, buffered.rollback_range) == (None, None)
    assert list(buffered) == [], "what is buffered has no ids before the commit"
    assert payloads(topic.poll(after=plain[0], limit=1)) == [b"two"]


def test_the_ids_of_a_run_of_two_milliseconds(topic: tms.Topic) -> None:
    published = topic.publish([b""] * 70_000)

    assert list(published) == [message.id for message in topic.poll()]


def test_messages_come_in_the_order_they_were_published(topic: tms.Topic) -> None:
    topic.publish(b"one")
    topic.publish([b"two", b"three"])
    topic.publish(message for message in (b"", b"\xff\x00"))

    messages = list(topic.poll())

    assert payloads(messages) == [b"one", b"two", b"three", b"", b"\xff\x00"]
    assert sorted(message.id for message in messages) == [message.id for message in messages]


def test_a_poll_starts_at_or_after_an_id_in_any_form(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two", b"three"])
    second = list(topic.poll())[1].id
    for form in (second, second.hex(), tms.MessageId.decode(second)):
        assert payloads(topic.poll(start=form)) == [b"two", b"three"]
        assert payloads(topic.poll(after=form)) == [b"three"]


def test_a_poll_starts_at_or_after_a_time(topic: tms.Topic) -> None:
    topic.publish(b"one")
    wait_for_next_millisecond(topic)
    topic.publish(b"two")
    first, second = (message.publish_timestamp for message in topic.poll())
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=second)

    assert payloads(topic.poll(start=second)) == [b"two"]
    assert payloads(topic.poll(start=at)) == [b"two"]
    assert payloads(topic.poll(after=first)) == [b"two"]
    assert payloads(topic.poll(after=at)) == []


def test_a_limit_is_kept(topic: tms.Topic) -> None:
    topic.publish([b"%d" % number for number in range(500)])

    assert len(list(topic.poll())) == 500
    assert payloads(topic.poll(limit=2)) == [b"0", b"1"]
    assert len(list(topic.poll(limit=2**40))) == 500
    with pytest.raises(tms.InvalidRequest) as invalid:
        topic.poll(limit=0)
    assert invalid.value.problem.code == "invalid_limit"


def test_large_and_many_messages_arrive_whole(topic: tms.Topic) -> None:
    large = bytes(range(256)) * 4096
    for _ in range(3):
        topic.publish(large)
    many = [b"%07d" % number for number in range(20_000)]
    topic.publish(many)

    assert payloads(topic.poll()) == [large, large, large, *many]


def test_a_poll_left_half_read_does_no_harm(topic: tms.Topic) -> None:
    topic.publish([b"x" * 1000] * 5000)
    for _ in range(5):
        messages = topic.poll()
        assert next(messages).payload == b"x" * 1000
        del messages

    assert len(list(topic.poll())) == 5000


def test_two_polls_can_be_read_in_turns(topic: tms.Topic) -> None:
    topic.publish([b"%d" % number for number in range(5000)])

    assert all(one == other for one, other in zip(topic.poll(), topic.poll(), strict=True))


def test_a_wait_ends_with_nothing_when_its_time_is_up(topic: tms.Topic) -> None:
    begun = time.monotonic()

    assert list(topic.poll(wait_s=0.2)) == []
    assert time.monotonic() - begun >= 0.2


def test_an_impossible_wait_is_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.InvalidRequest) as invalid:
        list(topic.poll(wait_s=-1))
    assert invalid.value.problem.code == "invalid_wait"


def test_a_transaction_sees_what_it_can_and_everyone_else_sees_all(
    client: tms.Client, topic: tms.Topic, pointer: int
) -> None:
    topic.publish(b"plain")
    with client.transaction() as first:
        topic.publish(b"committed", first.transaction)
    topic.publish(b"in progress", pointer)
    topic.publish(b"behind it")

    seen = topic.poll(tx=seeing(first.write_pointer, in_progress=[pointer]))
    assert payloads(seen) == [b"plain", b"committed"]
    assert payloads(topic.poll(committed=True)) == [b"plain", b"committed"]
    seen = topic.poll(tx=seeing(first.write_pointer, invalids=[pointer]))
    assert payloads(seen) == [b"plain", b"committed", b"behind it"]
    # This transaction began after the snapshot: a reader stops at it, though it has committed
    # since.
    assert payloads(topic.poll(tx=pointer)) == [b"plain"]
    assert payloads(topic.poll()) == [b"plain", b"committed", b"in progress", b"behind it"]


def test_a_poll_is_for_a_transaction_or_for_what_is_committed(topic: tms.Topic) -> None:
    with pytest.raises(ValueError, match="either tx or committed"):
        topic.poll(tx=5, committed=True)


def test_following_what_is_committed_waits_for_a_commit(
    client: tms.Client, topic: tms.Topic
) -> None:
    messages = topic.follow(committed=True)
    with client.transaction() as tx:
        topic.publish(b"one", tx)
        with ThreadPoolExecutor(1) as threads:
            following = threads.submit(next, messages)
            topic.publish(b"behind it")
            assert list(topic.poll(committed=True)) == []
            assert not following.done()
            tx.abort()
            assert following.result(WAIT_S_MAX).payload == b"behind it"


def test_what_was_rolled_back_is_hidden_from_transactions(topic: tms.Topic, pointer: int) -> None:
    published = topic.publish([b"one", b"two"], pointer)
    assert published is not None
    assert published.write_pointer == pointer

    topic.rollback(published)
    topic.rollback(published)

    assert payloads(topic.poll(tx=seeing(pointer))) == []
    assert payloads(topic.poll()) == [b"one", b"two"]


def test_another_writers_range_is_not_rolled_back(topic: tms.Topic, pointer: int) -> None:
    published = topic.publish(b"x", pointer)
    assert published is not None
    foreign = replace(published, write_pointer=pointer - SHARDS)

    with pytest.raises((tms.RollbackRefused, tms.TransactionUnknown)):
        topic.rollback(foreign)
    assert payloads(topic.poll(tx=seeing(pointer))) == [b"x"]


def test_what_is_stored_appears_when_it_is_published(topic: tms.Topic, pointer: int) -> None:
    assert list(topic.publish([b"one", b"two"], pointer, buffer=True)) == []
    topic.store(b"three", pointer)
    assert payloads(topic.poll()) == []
    published = topic.publish([], pointer)

    assert published is not None
    messages = list(topic.poll(tx=pointer))
    assert payloads(messages) == [b"one", b"two", b"three"]
    # The id of a stored message is as good a start as any other.
    assert payloads(topic.poll(after=messages[0].id)) == [b"two", b"three"]


def test_publishing_and_storing_nothing_is_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.InvalidRequest) as publish:
        topic.publish([])
    with pytest.raises(tms.InvalidRequest) as store:
        topic.store([], write_pointer())

    assert publish.value.problem.code == "empty_publish"
    assert store.value.problem.code == "invalid_store"


@pytest.mark.parametrize("pointer", [0, -1, 2**63])
def test_an_impossible_write_pointer_is_refused(topic: tms.Topic, pointer: int) -> None:
    with pytest.raises(tms.InvalidRequest) as invalid:
        topic.publish(b"x", pointer)
    assert invalid.value.problem.code == "invalid_write_pointer"


def test_an_old_write_pointer_is_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.TransactionExpired):
        topic.publish(b"x", 1)


def test_too_large_a_message_is_refused(topic: tms.Topic) -> None:
    with pytest.raises(tms.TooLarge):
        topic.publish(bytes(11 * 1024 * 1024))
    assert payloads(topic.poll()) == []


def test_text_is_not_taken_for_messages(topic: tms.Topic) -> None:
    with pytest.raises(TypeError, match="encode it first"):
        topic.publish("text")
    with pytest.raises(TypeError, match="encode it first"):
        topic.publish(["text"])
    for given, kind in (({"id": 7}, "dict"), (bytearray(b"x"), "bytearray"), (7, "int")):
        with pytest.raises(TypeError, match=f"not {kind}: encode it first, or give schema="):
            topic.publish(given)


def test_a_buffer_needs_a_transaction(topic: tms.Topic) -> None:
    with pytest.raises(ValueError, match="give tx"):
        topic.publish(b"x", buffer=True)


def test_following_gives_what_is_there_and_what_comes(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two"])
    messages = topic.follow()

    assert [next(messages).payload, next(messages).payload] == [b"one", b"two"]
    for payload in (b"three", b"four"):
        topic.publish(payload)
        assert next(messages).payload == payload


def test_following_starts_at_the_given_place(topic: tms.Topic) -> None:
    topic.publish([b"one", b"two", b"three"])
    first, second, _ = topic.poll()

    assert next(topic.follow(after=second.id)).payload == b"three"
    assert next(topic.follow(start=second.id)).payload == b"two"
    assert next(topic.follow(start=first.publish_timestamp)).payload == b"one"


def test_following_ends_when_the_topic_is_deleted(topic: tms.Topic) -> None:
    topic.publish(b"one")
    messages = topic.follow()
    next(messages)
    topic.delete()

    with pytest.raises(tms.TopicNotFound):
        next(messages)


def test_a_topic_that_is_there_stays_as_it_is(client: tms.Client) -> None:
    topic = client.topic("again")
    topic.create(60, exist_ok=True)
    topic.create(exist_ok=True, owner="shop")
    assert topic.properties() == {"ttl": "60", "generation": "1"}
    with pytest.raises(tms.TopicExists):
        topic.create()
    with pytest.raises(tms.InvalidRequest):
        topic.create(0, exist_ok=True)

    billing = topic.subscription("billing")
    first = billing.create(exist_ok=True)
    assert billing.create(exist_ok=True) == first
    with pytest.raises(tms.SubscriptionExists):
        billing.create()
