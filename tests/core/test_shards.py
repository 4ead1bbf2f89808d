"""The shards of topics and transactions: these numbers are stored, so they must never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.values.shards import EVERY_ID, SHARDS_MAX, OwnIds, ShardBy, Sharding
from tms.core.values.topic import TopicId

BY_NAMESPACE = Sharding(16)
BY_TOPIC = Sharding(16, ShardBy.TOPIC)

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
NAMESPACES = st.from_regex(r"[A-Za-z0-9_]{1,20}", fullmatch=True)
COUNTS = st.integers(1, SHARDS_MAX)


@pytest.mark.parametrize(
    ("namespace", "shard"), [("default", 15), ("system", 11), ("shop", 2), ("a", 3), ("Z_9", 7)]
)
def test_a_namespace_is_where_it_always_was(namespace: str, shard: int) -> None:
    assert BY_NAMESPACE.shard_of(TopicId(namespace, "orders")) == shard
    assert BY_NAMESPACE.home(namespace) == BY_TOPIC.home(namespace) == shard
    assert BY_NAMESPACE.home(namespace, "orders") == shard


@pytest.mark.parametrize(
    ("namespace", "topic", "shard"),
    [
        ("default", "orders", 7),
        ("default", "orders--dead", 7),
        ("default", "orders--", 7),
        ("default", "orders--retry--2", 7),
        ("default", "orders-dead", 11),
        ("system", "_schemas", 15),
        ("shop", "orders", 8),
        ("shop", "--x", 14),
    ],
)
def test_a_topic_is_where_it_always_was(namespace: str, topic: str, shard: int) -> None:
    assert BY_TOPIC.shard_of(TopicId(namespace, topic)) == shard
    assert BY_TOPIC.home(namespace, topic) == shard


@given(NAMESPACES, NAMES, COUNTS, st.sampled_from(ShardBy))
def test_every_topic_is_in_one_of_the_shards(ns: str, name: str, shards: int, by: ShardBy) -> None:
    sharding = Sharding(shards, by)

    assert 0 <= sharding.shard_of(TopicId(ns, name)) < shards
    assert sharding.home(ns, name) == sharding.shard_of(TopicId(ns, name))
    assert 0 <= sharding.home(ns) < shards


@given(NAMESPACES, NAMES, NAMES, COUNTS)
def test_topics_named_after_another_are_beside_it(
    ns: str, name: str, after: str, shards: int
) -> None:
    sharding = Sharding(shards, ShardBy.TOPIC)

    assert sharding.shard_of(TopicId(ns, f"{name}--{after}")) == sharding.shard_of(
        TopicId(ns, f"{name}--")
    )


@given(st.integers(0, 2**62), COUNTS, st.data())
def test_an_id_says_its_shard(number: int, shards: int, data: st.DataObject) -> None:
    own = OwnIds(data.draw(st.integers(0, shards - 1)), shards)

    pointer = own.first_from(number)

    assert number <= pointer < number + shards
    assert own.has(pointer)
    assert Sharding(shards).shard_of_transaction(pointer) == own.shard
    assert not any(map(own.has, range(number, pointer)))


@given(st.integers(0, 2**62))
def test_a_store_with_one_shard_uses_every_id(number: int) -> None:
    assert EVERY_ID.first_from(number) == number
    assert EVERY_ID.has(number)


@pytest.mark.parametrize("shards", [0, -1, SHARDS_MAX + 1])
def test_other_numbers_of_shards_are_refused(shards: int) -> None:
    with pytest.raises(ValueError, match=str(shards)):
        Sharding(shards)


@pytest.mark.parametrize("names", [("a b", None), ("", "orders"), ("shop", "a:b")])
def test_a_home_has_valid_names(names: tuple[str, str | None]) -> None:
    with pytest.raises(InvalidRequest):
        BY_TOPIC.home(*names)
