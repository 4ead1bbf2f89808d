"""A store of several leaders, on rows in memory: its seals, and which late rows are visible."""

from functools import partial

import pytest

from cleanup import policy
from cleanup.expiry import drop_sealed
from cleanup.ranges import Budget, Reason, drop_ranges
from tables.keys import after_prefix, prefix
from tables.memory import MemoryStore
from tables.sealing.seal import Hidden, Seal
from tables.sealing.store import SealedStore, unsealed
from tables.sealing.tables import SealedTables
from tables.store import MESSAGE, METADATA
from tests.contracts.store_contract import put, rows_of
from tests.tables.sealing.reign import Reign
from tests.tables.sealing.sealed_world import (
    ROW,
    TOPIC,
    World,
    message_rows,
    publish,
    seen,
    with_topic,
)
from tms.core.errors import NoLeader, StoreUnavailable
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata


@pytest.fixture
def world() -> World:
    return with_topic()


def test_what_comes_after_the_first_look_is_not_seen_by_anybody(world: World) -> None:
    second = world.leader(2)
    assert seen(second) == [10, 20]
    world.late(30, 99)
    assert seen(second) == [10, 20]
    publish(second, 110)

    for store in (second, world.leader(3), SealedStore(world.rows)):
        assert seen(store) == [10, 20, 110]
        assert seen(store, reverse=True) == [110, 20, 10]
        assert seen(store, limit=3) == [10, 20, 110]
        assert seen(store, reverse=True, limit=2) == [110, 20]
        assert store.get(MESSAGE, message_rows([30])[0][0]) is None
        assert store.get(MESSAGE, message_rows([20])[0][0]) == b"\x0020"
    assert [int(value[1:]) for _, value in rows_of(unsealed(second), MESSAGE)] == [
        *(10, 20, 30, 99, 110),
    ]


def test_what_was_shown_to_some_leaders_readers_stays(world: World) -> None:
    """A late seal of the second leader must not hide rows that the third one has shown."""
    second = world.rows.get(METADATA, ROW)
    world.late(30)
    third = world.leader(3)
    assert seen(third) == [10, 20, 30]

    late_seal = world.rows.compare_and_put(METADATA, ROW, second, b"of the second")

    assert not late_seal
    assert seen(world.leader(4)) == [10, 20, 30]


def test_late_changes_of_a_topic_fail_once_it_is_sealed(world: World) -> None:
    before = world.rows.get(METADATA, ROW)
    second = world.leader(2)
    publish(second, 110)

    assert not world.rows.compare_and_put(METADATA, ROW, before, b"late")
    tables = SealedTables(second)
    old = tables.metadata.get(TOPIC)
    assert old == TopicMetadata(TOPIC, 1, 60, {})
    # Even an update that changes no property.
    before = world.rows.get(METADATA, ROW)
    third = SealedTables(world.leader(3))
    assert third.metadata.replace(old, old)
    assert not world.rows.compare_and_put(METADATA, ROW, before, b"late")


def test_what_is_read_of_a_topic_is_not_changed_late(world: World) -> None:
    """Otherwise messages could be published to the old state in memory, and be lost."""
    before = world.rows.get(METADATA, ROW)
    assert SealedTables(world.leader(2)).metadata.get(TOPIC) == TopicMetadata(TOPIC, 1, 60, {})

    assert not world.rows.compare_and_put(METADATA, ROW, before, b"late")


def test_a_change_before_the_seal_is_looked_at_again(world: World) -> None:
    class Meddling(MemoryStore):
        def compare_and_put(
            self, table: str, key: bytes, expected: bytes | None, value: bytes | None
        ) -> bool:
            if not meddled:
                meddled.append(SealedTables(world.leader(1)).metadata.replace(OLD, NEW))
            return super().compare_and_put(table, key, expected, value)

    OLD, NEW = TopicMetadata(TOPIC, 1, 60, {}), TopicMetadata(TOPIC, 1, 5, {})  # noqa: N806  as of a whole module
    meddled: list[bool] = []
    rows = Meddling()
    rows._tables = world.rows._tables
    second = SealedStore(rows, Reign(2, 100, 200))

    publish(second, 110)

    assert meddled == [True]
    assert SealedTables(second).metadata.get(TOPIC) == NEW
    assert world.seal() == Seal(2, (Hidden(KEY.pack(20, 0), 100),))


def test_a_leader_changes_no_topic_that_a_later_one_has_sealed(world: World) -> None:
    """Its clock pauses; it has read the topic before, and reads the row again."""
    first = SealedTables(world.leader(1))
    old = first.metadata.get(TOPIC)
    assert old is not None
    seen(world.leader(2))
    for new in (TopicMetadata(TOPIC, 1, 5, {}), TopicMetadata(TOPIC, -1, 60, {})):
        with pytest.raises(StoreUnavailable) as refused:
            first.metadata.replace(old, new)
        assert refused.value.detail["later_token"] == 2

    assert first.metadata.get(TOPIC) == old


def test_keys_continue_above_what_is_hidden(world: World) -> None:
    seen(world.leader(2))

    for store in (world.leader(2), SealedStore(world.rows)):
        last = SealedTables(store).messages.last_keys(TOPIC, 1).greatest
        assert last == KEY.pack(100, 65_535)
    publish(world.leader(2), 150)
    assert SealedTables(SealedStore(world.rows)).messages.last_keys(TOPIC, 1).greatest == KEY.pack(
        150, 0
    )


def test_a_new_generation_has_nothing_of_a_leader_before(world: World) -> None:
    tables = SealedTables(world.leader(2))
    old, deleted = TopicMetadata(TOPIC, 1, 60, {}), TopicMetadata(TOPIC, -1, 60, {})
    assert tables.metadata.replace(old, deleted)
    assert tables.metadata.replace(deleted, TopicMetadata(TOPIC, 2, 60, {}))

    put(world.rows, MESSAGE, (prefix(TOPIC, 2) + KEY.pack(50, 0), b"\x00late"))

    start = prefix(TOPIC, 2)
    assert rows_of(tables.store, MESSAGE, start, after_prefix(start)) == []
    assert world.seal() == Seal(2, (Hidden(b"", 100),))


def test_no_row_is_written_above_the_ceiling(world: World) -> None:
    second = world.leader(2)
    publish(second, 200)

    with pytest.raises(NoLeader):
        publish(second, 201)
    assert seen(second) == [10, 20, 200]


def test_a_leader_whose_token_is_behind_is_reported(world: World) -> None:
    seen(world.leader(5))

    with pytest.raises(StoreUnavailable) as refused:
        seen(world.leader(4))
    assert refused.value.detail["later_token"] == 5


def test_if_no_ceiling_is_known_nothing_is_hidden(world: World) -> None:
    """This happens after a leader of a version without seals."""
    second = SealedStore(world.rows, Reign(2, 0, 500))

    assert seen(second) == [10, 20]
    publish(second, 400)
    assert seen(SealedStore(world.rows)) == [10, 20, 400]
    assert world.seal().hidden == ()


def test_cleanup_drops_what_is_hidden_and_nothing_else(world: World) -> None:
    publish(world.leader(2), 110)
    world.late(30, 40)
    seal, topic = world.seal(), TopicMetadata(TOPIC, 1, 1_000, {})
    before = rows_of(world.rows, MESSAGE)

    drop = partial(drop_ranges, world.rows, Budget(10, 1_000))
    steps = list(drop_sealed(topic, seal, drop))

    assert sum(step.dropped for step in steps) == 2
    assert {step.reason for step in steps} == {Reason.SEALED}
    kept = [
        row
        for row in before
        if policy.message(
            topic,
            generation=1,
            timestamp_ms=KEY.unpack(row[0][-KEY.size :])[0],
            write_pointer=0,
            invalids=(),
            now_ms=500,
            is_sealed=seal.range_of(row[0][-KEY.size :]) is not None,
        )
        is policy.Decision.KEEP
    ]
    assert rows_of(world.rows, MESSAGE) == kept


def test_a_store_without_leaders_is_as_it_was() -> None:
    store = SealedStore(MemoryStore())
    tables = SealedTables(store)
    topic = TopicMetadata(TOPIC, 1, 60, {})
    assert tables.metadata.replace(None, topic)
    assert not tables.metadata.replace(None, topic)
    publish(store, 5)

    assert store.beneath.get(METADATA, ROW) == b'{"generation":"1","ttl":"60"}'
    assert tables.messages.last_keys(TOPIC, 1).greatest == KEY.pack(5, 0)
    deleted = TopicMetadata(TOPIC, -1, 60, {})
    assert tables.metadata.replace(topic, deleted)
    batch = tables.batch()
    assert tables.metadata.forget(batch, [topic, deleted]) == {TOPIC}
    tables.write(batch)
    assert rows_of(store, METADATA) == []
