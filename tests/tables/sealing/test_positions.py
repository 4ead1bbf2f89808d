"""Positions that leaders hand on, with rows that may arrive late."""

import pytest

from tables.keys import after_prefix, metadata_key, prefix
from tables.memory import MemoryStore
from tables.sealing.positions import plain_rows, row_of_position
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import METADATA, SUBSCRIPTION, Row
from tests.contracts.store_contract import put, rows_of
from tests.messaging.conftest import FaultyStore
from tests.tables.sealing.reign import Reign
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId, TopicMetadata

TOPIC = TopicId("default", "t")
START = prefix(TOPIC, 1)
IDS = [bytes([n]) * 20 for n in range(100)]


def at(version: int, name: str = "s") -> SubscriptionPosition:
    return SubscriptionPosition(TOPIC, name, IDS[version], version)


class World:
    """One store, and its successive leaders."""

    def __init__(self) -> None:
        self.rows = FaultyStore()
        self.leader(1).metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))

    def leader(self, token: int) -> SealedTables:
        return SealedTables(SealedStore(self.rows, Reign(token, 100 * token, 100 * token + 100)))

    def alone(self) -> SealedTables:
        return SealedTables(SealedStore(self.rows))

    def stored(self) -> list[Row]:
        return rows_of(self.rows, SUBSCRIPTION)


@pytest.fixture
def world() -> World:
    return World()


def change(tables: SealedTables, *moved: SubscriptionPosition, deletes: bool = False) -> None:
    batch = tables.batch()
    for position in moved:
        table = tables.subscriptions
        (table.delete if deletes else table.put)(batch, START, position)
    tables.write(batch)


def read(tables: SealedTables) -> list[SubscriptionPosition]:
    return list(tables.subscriptions.read(TOPIC, START))


def test_the_next_leader_finds_the_latest_move(world: World) -> None:
    first = world.leader(1)
    assert read(first) == []
    for version in (1, 2, 3):
        change(first, at(version), at(version, "other"))

    assert read(first) == read(world.leader(2)) == [at(3, "other"), at(3)]


@pytest.mark.parametrize("happens", [False, True])
def test_a_read_whose_seal_is_not_answered_can_be_repeated(world: World, *, happens: bool) -> None:
    first, second = world.leader(1), world.leader(2)
    read(first)
    change(first, at(1))
    world.rows.writes_fail, world.rows.writes_happen_all_the_same = True, happens
    with pytest.raises(StoreUnavailable):
        read(second)
    world.rows.writes_fail = False

    assert read(second) == [at(1)]


def test_what_an_earlier_leader_moves_late_does_not_count(world: World) -> None:
    first, second = world.leader(1), world.leader(2)
    read(first)
    change(first, at(1))
    assert read(second) == [at(1)]
    change(first, at(2), at(50, "new"))

    assert read(second) == [at(1)]
    change(second, at(2))
    change(first, at(9))
    assert read(world.leader(3)) == read(world.alone()) == [at(2)]


def test_what_was_deleted_stays_deleted_and_may_be_made_again(world: World) -> None:
    first, second = world.leader(1), world.leader(2)
    read(first)
    change(first, at(1))
    change(first, at(1), deletes=True)
    assert read(first) == read(second) == []
    change(first, at(5))
    assert read(second) == []
    change(second, at(7))
    assert read(second) == read(world.leader(3)) == [at(7)]
    change(second, at(7), deletes=True)
    assert read(world.leader(3)) == [at(7)]


def test_rows_that_count_no_more_are_deleted(world: World) -> None:
    first = world.leader(1)
    read(first)
    for version in range(1, 60):
        change(first, at(version))
        assert len(world.stored()) <= 18
    assert read(world.leader(2)) == [at(59)]
    assert len(world.stored()) == 2


def test_an_earlier_leader_is_informed_that_it_is_none(world: World) -> None:
    first = world.leader(1)
    read(world.leader(2))

    with pytest.raises(StoreUnavailable) as refused:
        read(first)
    assert refused.value.detail["later_token"] == 2


def test_a_store_that_was_never_a_clusters_has_plain_rows() -> None:
    rows = MemoryStore()
    tables = SealedTables(SealedStore(rows))
    tables.metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))
    assert read(tables) == []
    change(tables, at(1))
    change(tables, at(2))
    assert [key for key, _ in rows_of(rows, SUBSCRIPTION)] == [START + b"s"]
    assert read(tables) == [at(2)]
    change(tables, at(2), deletes=True)
    assert rows_of(rows, SUBSCRIPTION) == []
    assert rows.get(METADATA, metadata_key(TOPIC)) is not None


def test_a_cluster_continues_from_plain_rows_and_a_server_alone_from_a_clusters() -> None:
    world = World()
    before = world.alone()
    assert read(before) == []
    change(before, at(3))
    first = world.leader(1)
    assert read(first) == [at(3)]
    change(first, at(4))
    change(before, at(30))
    assert read(first) == [at(4)]

    after = world.alone()
    assert read(after) == [at(4)]
    change(after, at(5))
    assert read(after) == read(world.leader(2)) == [at(5)]
    change(after, at(6))
    assert [each.position for each in after.subscriptions.scan(limit=9)] == [at(5)]


def test_all_positions_are_scanned_and_become_plain(world: World) -> None:
    first = world.leader(1)
    read(first)
    change(first, at(1), at(2, "other"), at(3, "gone"))
    change(first, at(3, "gone"), deletes=True)

    found = first.subscriptions.scan(limit=9)
    assert [each.position for each in found] == [at(2, "other"), at(1)]
    assert [each.position for each in first.subscriptions.scan(limit=1)] == [at(2, "other")]
    assert [key for key, _ in plain_rows(world.stored())] == [START + b"other", START + b"s"]


def test_a_row_says_what_it_is_and_a_damaged_one_is_refused(world: World) -> None:
    first = world.leader(1)
    read(first)
    change(first, at(1))
    told = [row_of_position(START, key) for key, _ in world.stored()]
    assert told == [{"floor": True}, {"subscription": "s", "token": 1, "version": 1}]
    assert row_of_position(START, START + b"plain") == {"subscription": "plain"}
    put(world.rows, SUBSCRIPTION, (START + b"s\x00p", b"v"))

    assert after_prefix(START) > START + b"s\x00p"
    with pytest.raises(StoreCorrupt):
        read(world.leader(2))
