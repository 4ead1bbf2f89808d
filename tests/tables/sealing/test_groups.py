"""Groups that leaders hand on, with rows that may arrive late."""

import pytest

from tables.group_table import StoredGroup, StoreGroupLog
from tables.keys import prefix
from tables.memory import MemoryStore
from tables.sealing.groups import plain_group_rows
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import GROUP
from tables.store_tables import StoreTables
from tests.contracts.store_contract import put, rows_of
from tests.tables.sealing.reign import Reign
from tests.tables.stored_groups import append
from tms.core.errors import StoreUnavailable
from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.store_features import GROUPS
from tms.core.values.subscriptions import SharedSubscription
from tms.core.values.topic import TopicId, TopicMetadata

TOPIC = TopicId("default", "t")
START = prefix(TOPIC, 1)
CREATED = 1_790_000_000_000_000


def shared(name: str, version: int = CREATED) -> SharedSubscription:
    return SharedSubscription(
        topic_id=TOPIC,
        name=name,
        after=None,
        version=version,
        created=CREATED,
        settings=GroupSettings(order=Order.KEY),
    )


class World:
    """One store, and its successive leaders."""

    def __init__(self) -> None:
        self.rows = MemoryStore()
        self.leader(1).metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))
        self.rows.add_feature(GROUPS)

    def leader(self, token: int) -> SealedTables:
        return SealedTables(SealedStore(self.rows, Reign(token, 100 * token, 100 * token + 100)))

    def alone(self) -> SealedTables:
        return SealedTables(SealedStore(self.rows))


@pytest.fixture
def world() -> World:
    return World()


def begin(tables: StoreTables, name: str = "g") -> StoreGroupLog:
    tables.subscriptions.read(TOPIC, START)
    batch = tables.batch()
    log = tables.groups.begin(batch, START, name, CREATED, b"begun")
    tables.subscriptions.put(batch, START, shared(name))
    tables.write(batch)
    return log


def read(tables: StoreTables) -> StoredGroup:
    assert tables.subscriptions.read(TOPIC, START) == [shared("g")]
    return tables.groups.read(START, "g", CREATED)


def go_on(tables: StoreTables) -> StoreGroupLog:
    """Read a group, and put a snapshot under the leader's token, as a leader does."""
    found = read(tables)
    if not found.log.is_own:
        found.log.put_snapshot(found.log.next_number, b"".join([found.snapshot, *found.rows]))
    return found.log


def test_the_next_leader_continues_from_its_own_snapshot(world: World) -> None:
    first = world.leader(1)
    log = begin(first)
    assert log.is_own
    append(first, log, b" one", b" two")
    second = world.leader(2)
    found = read(second)
    assert (found.rows, found.log.is_own) == ([b" one", b" two"], False)
    with pytest.raises(AssertionError):
        append(second, found.log, b"too early")
    log = go_on(second)
    append(second, log, b" three")

    for tables in (second, world.leader(3), world.alone()):
        assert read(tables)[1:] == (CREATED + 2, b"begun one two", [b" three"])


def test_what_an_earlier_leader_sends_late_does_not_count(world: World) -> None:
    first, second = world.leader(1), world.leader(2)
    late = begin(first)
    append(first, late, b" one")
    log = go_on(second)
    append(first, late, b" late", b" later")
    late.put_snapshot(late.next_number, b"late")
    append(first, late, b" too late")
    append(second, log, b" two")
    assert read(second)[1:] == (CREATED + 1, b"begun one", [b" two"])
    while log.drop(10):
        pass

    third = world.leader(3)
    append(third, go_on(third), b" three")
    for tables in (third, world.alone()):
        assert read(tables)[1:] == (CREATED + 2, b"begun one two", [b" three"])
    with pytest.raises(StoreUnavailable, match="later_token=3"):
        second.groups.read(START, "g", CREATED)


def test_what_earlier_leaders_left_goes_with_the_next_snapshot(world: World) -> None:
    first = world.leader(1)
    append(first, begin(first), b" one", b" two")
    for token in (2, 3):
        go_on(world.leader(token))
    fourth = world.leader(4)
    log = go_on(fourth)
    append(fourth, log, b" three")
    while log.drop(3):
        pass

    told = rows_of(world.rows, GROUP)
    assert len(told) == 3 + 1 + 2, "fences, a row, a snapshot"
    assert read(fourth)[1:] == (CREATED + 2, b"begun one two", [b" three"])


def test_a_server_alone_continues_under_the_token_of_the_last_leader(world: World) -> None:
    first = world.leader(1)
    append(first, begin(first), b" one")
    alone = world.alone()
    log = go_on(alone)
    assert log.is_own
    append(alone, log, b" two")
    other = begin(alone, "h")
    assert other.is_own

    second = world.leader(2)
    second.subscriptions.read(TOPIC, START)
    assert second.groups.read(START, "g", CREATED).rows == [b" one", b" two"]
    assert second.groups.read(START, "h", CREATED).snapshot == b"begun"


def test_rows_that_count_are_those_that_a_lone_server_would_have(world: World) -> None:
    first, second = world.leader(1), world.leader(2)
    late = begin(first)
    begin(first, "g.2")
    append(first, late, b" one")
    second.subscriptions.read(TOPIC, START)
    log = second.groups.read(START, "g", CREATED).log
    log.put_snapshot(CREATED + 1, b"mine")
    append(second, log, b" two")
    append(first, late, b" late")
    put(world.rows, GROUP, (START + b"\x00gnobody's\x00" + bytes(16), b"left over"))

    plain = StoreTables(MemoryStore())
    put(plain.store, GROUP, *plain_group_rows(world.rows, b"default:t:"))
    rows = rows_of(plain.store, GROUP)
    assert rows == list(plain_group_rows(world.rows, b"default:t:"))
    assert plain.groups.read(START, "g", CREATED)[1:] == (CREATED + 1, b"mine", [b" two"])
    assert plain.groups.read(START, "g.2", CREATED)[1:] == (CREATED, b"begun", [])
    assert not plain.groups.read(START, "g", CREATED).log.has_older
