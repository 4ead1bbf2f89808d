"""Runs of stored payloads that leaders hand on, with rows that may arrive late."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.keys import after_prefix, payload_prefix, prefix
from tables.memory import MemoryStore
from tables.sealing import runs
from tables.sealing.runs import SEAL_KEY, is_seal, run_of
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.sealing.takeovers import Crossings
from tables.store import PAYLOAD, Row
from tests.contracts.store_contract import rows_of
from tests.tables.sealing.reign import Reign
from tms.core.errors import StoreUnavailable
from tms.core.values.message import KEY
from tms.core.values.stored_runs import Reference
from tms.core.values.topic import TopicId, TopicMetadata

TOPIC = TopicId("default", "t")
START = prefix(TOPIC, 1)
POINTER, YOUNG = 7, 1_000


class World:
    """One store, and its successive leaders: leader n has the keys up to 100 n + 99."""

    def __init__(self) -> None:
        self.rows = MemoryStore()
        self.leader(1).metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))

    def leader(self, token: int, in_progress: Collection[int] = (POINTER,)) -> SealedTables:
        lease = Reign(token, 100 * token - 1, 100 * token + 99)
        tables = SealedTables(SealedStore(self.rows, lease))
        tables.sealed.runs.record_takeover(YOUNG - 1, in_progress, Crossings(YOUNG - 1))
        return tables

    def alone(self) -> SealedTables:
        return SealedTables(SealedStore(self.rows))


@pytest.fixture
def world() -> World:
    return World()


def store(tables: SealedTables, time_ms: int, pointer: int = POINTER) -> None:
    batch = tables.batch()
    key = KEY.pack(time_ms, 0)
    tables.payloads.append(batch, START, pointer, [key], [b"%d" % time_ms])
    tables.write(batch)


def late(world: World, time_ms: int, pointer: int = POINTER) -> None:
    """Put a late row of an earlier leader."""
    batch = world.rows.batch()
    batch.put(PAYLOAD, payload_prefix(START, pointer) + KEY.pack(time_ms, 0), b"late")
    world.rows.write(batch)


def seals(world: World) -> list[Row]:
    return [row for row in rows_of(world.rows, PAYLOAD) if is_seal(row[0])]


def refer(tables: SealedTables, time_ms: int) -> None:
    batch = tables.batch()
    tables.messages.append_reference(batch, START, KEY.pack(time_ms, 0), POINTER)
    tables.write(batch)


def read(tables: SealedTables, pointer: int = POINTER, first: int = 0) -> list[bytes]:
    block, _ = tables.payloads.read(
        START, pointer, KEY.pack(1, 0), KEY.pack(first, 0), limit=99, bytes_max=10_000
    )
    return [message.payload for message in block]


def test_what_comes_late_is_hidden_once_the_run_was_used(world: World) -> None:
    store(world.leader(1), 101)
    second = world.leader(2)
    assert read(second) == [b"101"]
    late(world, 102)
    store(second, 201)
    late(world, 199)

    assert read(second) == read(world.alone()) == [b"101", b"201"]
    third = world.leader(3)
    assert read(third) == [b"101", b"201"]
    late(world, 299)
    assert read(third, first=102) == [b"201"]
    assert third.payloads.last_key(START, POINTER) == KEY.pack(201, 0)
    assert third.payloads.first_key(START, POINTER) == KEY.pack(101, 0)


@pytest.mark.parametrize("use", [store, refer])
def test_each_use_seals(world: World, use: Callable[[SealedTables, int], None]) -> None:
    store(world.leader(1), 101)

    use(world.leader(2), 201)
    late(world, 102)

    assert b"late" not in read(world.leader(3))


def test_what_came_before_the_first_use_is_there(world: World) -> None:
    store(world.leader(1), 101)
    late(world, 102)

    assert read(world.leader(2)) == [b"101", b"late"]


def test_a_run_of_which_nothing_is_there_stays_empty(world: World) -> None:
    world.leader(1)
    second = world.leader(2)
    assert read(second) == []
    late(world, 150)

    assert read(second) == read(world.leader(3)) == []


def test_what_began_under_this_leader_needs_no_seal(world: World) -> None:
    first = world.leader(1)
    store(first, 101, YOUNG)

    assert read(first, YOUNG) == [b"101"]
    assert not seals(world)


def test_what_has_ended_is_sealed_once(world: World) -> None:
    store(world.leader(1), 101)
    assert read(world.leader(2, in_progress=())) == [b"101"]
    late(world, 102)
    [seal] = seals(world)

    assert read(world.leader(3, in_progress=())) == [b"101"]
    assert seal in rows_of(world.rows, PAYLOAD)
    assert b'"ended":true' in seal[1]


@pytest.mark.parametrize("token", [2, 3, 9])
def test_what_went_on_over_no_takeover_needs_no_seal(world: World, token: int) -> None:
    first = world.leader(1)
    first.sealed.runs.record_takeover(0, (), Crossings(0))
    store(first, 101)
    leader = world.leader(token, in_progress=())
    leader.sealed.runs.record_takeover(YOUNG - 1, (), Crossings(0, frozenset({POINTER + 1})))
    assert read(leader) == [b"101"]
    assert not seals(world)

    assert read(leader, POINTER + 1) == []
    assert len(seals(world)) == 1


class Counted(MemoryStore):
    """Rows that count their reads and changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = self.swaps = 0

    def scan(self, *args: Any, **options: Any) -> Any:
        self.scans += 1
        return super().scan(*args, **options)

    def compare_and_put(self, *args: Any) -> bool:
        self.swaps += 1
        return super().compare_and_put(*args)


def test_runs_behind_one_that_is_read_are_sealed_with_it_by_one_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.tables.sealing.test_runs.MemoryStore", Counted)
    world, count = World(), 300
    assert isinstance(world.rows, Counted)
    first = world.leader(1, in_progress=range(1, count + 1))
    for pointer in range(1, count + 1):
        store(first, 101, pointer)
        store(first, 102, pointer)
    second = world.leader(2, in_progress=range(1, count + 1))
    assert read(second, 1) == [b"101", b"102"]
    assert len(seals(world)) == count
    world.rows.scans = world.rows.swaps = 0

    for pointer in range(1, count + 1):
        late(world, 103, pointer)
        assert read(second, pointer) == [b"101", b"102"]
    assert world.rows.swaps == 0
    # After late rows, another scan is needed to continue.
    assert world.rows.scans <= 2 * count

    third = world.leader(3, in_progress=())
    world.rows.scans = 0
    assert [read(third, pointer) for pointer in range(1, count + 1)] == [[b"101", b"102"]] * count
    assert world.rows.swaps == count + 1  # the topic is sealed too
    assert world.rows.scans <= 2 * count + 10


@given(
    stored=st.lists(
        st.tuples(st.integers(1, 4), st.integers(101, 199), st.booleans()), max_size=12, unique=True
    ),
    rows_max=st.integers(1, 9),
)
def test_runs_sealed_together_are_sealed_as_each_alone(
    stored: list[tuple[int, int, bool]], rows_max: int
) -> None:
    worlds = World(), World()
    for world in worlds:
        first = world.leader(1, in_progress=range(1, 5))
        for pointer, time_ms, is_late in stored:
            if not is_late:
                store(first, time_ms, pointer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_TOGETHER_ROWS", rows_max)
        for world in worlds:
            for token in (2, 3):
                leader = world.leader(token, in_progress=range(1, 5))
                for pointer in range(1, 5):
                    run = payload_prefix(START, pointer)
                    if world is worlds[0]:
                        leader.sealed.runs.seal(run)
                    leader.sealed.runs.hidden(run)
                for pointer, time_ms, is_late in stored:
                    if is_late and token == 2:
                        late(world, time_ms, pointer)

    assert rows_of(worlds[0].rows, PAYLOAD) == rows_of(worlds[1].rows, PAYLOAD)


def test_a_later_leader_is_found_out(world: World) -> None:
    first = world.leader(1)
    store(first, 101)
    assert read(world.leader(2)) == [b"101"]
    first.sealed.runs._hidden.clear()

    with pytest.raises(StoreUnavailable):
        read(first)


def test_a_scan_over_runs_has_neither_seals_nor_what_they_hide(world: World) -> None:
    store(world.leader(1), 101)
    second = world.leader(2)
    assert read(second) == [b"101"]
    late(world, 102)
    store(second, 201, YOUNG)

    def scanned(*, reverse: bool = False, limit: int | None = None) -> list[bytes]:
        stop = after_prefix(START)
        tables = world.alone().sealed
        with tables.scan(PAYLOAD, START, stop, reverse=reverse, limit=limit) as rows:
            found: list[Row] = list(rows)
        return [value for _, value in found]

    assert scanned() == [b"101", b"201"]
    assert scanned(reverse=True) == [b"201", b"101"]
    assert scanned(limit=1) == [b"101"]
    assert scanned(reverse=True, limit=1) == [b"201"]


def test_the_run_of_a_range() -> None:
    run = payload_prefix(START, POINTER)
    assert run_of(run, after_prefix(run)) == run_of(run + SEAL_KEY, run + b"\xff") == run
    assert run_of(START, after_prefix(START)) is None
    assert run_of(run, after_prefix(START)) is None


def test_runs_read_together_hide_what_came_late(world: World) -> None:
    first = world.leader(1, in_progress=range(1, 9))
    for pointer in range(1, 9):
        store(first, 101, pointer)
    second = world.leader(2, in_progress=range(1, 9))
    references = [Reference(KEY.pack(1, each), each, KEY.pack(0, 0)) for each in (1, 3, 4, 8)]

    def together(tables: SealedTables) -> list[list[bytes]]:
        runs = tables.payloads.read_runs(START, references, limit=99, bytes_max=10_000)
        return [[message.payload for message in run.block] for run in runs]

    assert together(second) == [[b"101"]] * 4
    for pointer in range(1, 9):
        late(world, 102, pointer)
    store(second, 201, 4)

    assert together(second) == [[b"101"], [b"101"], [b"101", b"201"], [b"101"]]
    assert together(world.leader(3)) == together(world.alone()) == together(second)


class LateBeforeScan(MemoryStore):
    """Rows to which some are added right before a later scan of stored payloads."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[Callable[[], None] | None] = []
        """The event before each of the next scans."""

    @contextmanager
    def scan(self, table: str, *bounds: bytes, **options: Any) -> Iterator[Iterator[Row]]:
        if table == PAYLOAD and self.due and (come := self.due.pop(0)):
            come()
        with super().scan(table, *bounds, **options) as rows:
            yield rows


def test_runs_are_sealed_before_they_are_read_together(world: World) -> None:
    """Otherwise a row that arrives between the two is in the seal but was not read."""
    world.rows = rows = LateBeforeScan()
    pointers = (POINTER, POINTER + 1)
    first = world.leader(1, pointers)
    first.metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))
    for pointer in pointers:
        store(first, 101, pointer)
    references = [Reference(KEY.pack(1, 0), each, KEY.pack(0, 0)) for each in pointers]
    second = world.leader(2, pointers)

    rows.due = [None, lambda: late(world, 102, POINTER + 1)]
    runs = second.payloads.read_runs(START, references, limit=99, bytes_max=10_000)

    assert not rows.due
    given = [[message.payload for message in run.block] for run in runs]
    assert given == [read(second, pointer) for pointer in pointers]
