"""Cleanup while regions split, merge and fail; only one process cleans up at a time."""

from collections.abc import Iterator
from functools import partial
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup.expiry import written_ms
from cleanup.hbase.cleaner import RegionCleaner
from cleanup.hbase.lease import CleanupLease
from cleanup.hbase.parts import behind_ms
from cleanup.hbase.plan import remaining
from cleanup.hbase.table_calls import TableServices
from dev.hbase.regions import change
from dev.hbase.servers import HBaseServers
from tables.hbase.layout import Place
from tables.hbase.regions import END, FIRST, Region
from tables.hbase.store import HBaseStore
from tables.keys import prefix, transactional_start, write_pointer_of
from tables.metadata_table import StoreMetadataTable
from tables.prune_bound_table import Bound, StoreBoundTable, least
from tables.store import MESSAGE
from tests.manual_clock import ManualClock
from tests.tables.hbase.conftest import BUCKETS, gateway_to
from tests.waiting import wait_until
from tms.core.errors import StoreUnavailable
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata
from tms.transactions.pruning import InvalidList

NOW_MS = 1_800_000_000_000
LIMITS = Limits()
TOPIC = TopicId("ns", "t")
TTL_S = 3_600
DEAD = (NOW_MS - 1_000) * 1_000_000
ROWS = 20_000

POINTERS = [
    int.from_bytes(b"\x18" + byte * 4 + b"\x00'\\")
    for byte in (b"'", b":", b"\\", b"\n", b"\x00", b"\xff")
]
"""Some of the bytes are special in HBase's filter language."""

CUTS = st.lists(st.integers(0, 254).map(lambda n: bytes((n,))), max_size=6)


def regions(cuts: list[bytes]) -> list[Region]:
    starts = sorted({FIRST, *cuts})
    return [
        Region(MESSAGE, start, stop) for start, stop in zip(starts, [*starts[1:], END], strict=True)
    ]


@given(CUTS, st.lists(st.tuples(st.binary(max_size=1), st.binary(max_size=1)), max_size=4))
def test_what_remains_and_what_is_taken_are_all_without_overlap(
    cuts: list[bytes], pairs: list[tuple[bytes, bytes]]
) -> None:
    taken = [Region(MESSAGE, *sorted(pair)) for pair in pairs]
    left = remaining(regions(cuts), taken)

    for place in [b"", *(bytes((n, k)) for n in range(255) for k in (0, 9))]:
        in_left = [each for each in left if each.start <= place < each.stop]
        in_taken = any(each.start <= place < each.stop for each in taken)
        assert len(in_left) == (not in_taken)


@given(CUTS, CUTS, st.lists(st.integers(0, 5), min_size=14, max_size=14))
def test_a_region_has_the_least_bound_of_what_it_came_of(
    before: list[bytes], now: list[bytes], numbers: list[int]
) -> None:
    bounds = [
        Bound(MESSAGE, region.start, region.stop, number, 0)
        for region, number in zip(regions(before), numbers, strict=False)
    ]
    for region in regions(now):
        here = [b for b in bounds if b.start < region.stop and region.start < b.stop]
        found = least(bounds, region.start, region.stop)
        assert found == min(bound.write_pointer for bound in here)


def test_nothing_is_known_of_a_range_with_a_gap() -> None:
    bounds = [Bound(MESSAGE, b"", b"b", 7, 0), Bound(MESSAGE, b"c", END, 7, 0)]

    assert least(bounds, FIRST, END) == 0
    assert least(bounds, b"a", b"b") == 7


@pytest.fixture
def filled(hbase_store: HBaseStore) -> HBaseStore:
    """A store with a topic whose first half has expired; every tenth entry is invalid."""
    topic = TopicMetadata(TOPIC, 1, TTL_S, {})
    StoreMetadataTable(hbase_store).replace(None, topic)
    start = prefix(TOPIC, 1)
    first_ms = NOW_MS - TTL_S * 1000 - ROWS // 2
    for at in range(0, ROWS, 5_000):
        batch = hbase_store.batch()
        batch.put_rows(
            MESSAGE,
            [
                (
                    start + KEY.pack(first_ms + n, 0),
                    (b"\x00" if n % 10 else transactional_start(DEAD)) + b"x",
                )
                for n in range(at, at + 5_000)
            ],
        )
        hbase_store.write(batch)
    return hbase_store


def invalid_list() -> InvalidList:
    return InvalidList({DEAD: DEAD}, 2**63 - 1, NOW_MS * 1_000_000, NOW_MS * 1_000_000, 2**63 - 1)


def cleaner_of(store: HBaseStore, *, rows_max: int = 500) -> RegionCleaner:
    services = TableServices(store, invalid_list)
    clock = ManualClock(NOW_MS + behind_ms(store))
    return RegionCleaner(store, services, LIMITS, clock, workers=2, rows_max=rows_max)


def check_clean(store: HBaseStore) -> None:
    with store.scan(MESSAGE, b"", b"\xff") as rows:
        values = [value for _, value in rows]
    assert len(values) == ROWS // 2
    assert {write_pointer_of(value) for value in values if value[0]} == {-DEAD}
    found = StoreBoundTable(store).bounds(MESSAGE)
    current = [(region.start, region.stop) for region in store.regions(MESSAGE)]
    assert [(bound.start, bound.stop) for bound in found] == current
    assert all(bound.write_pointer >= DEAD for bound in found)


@pytest.mark.slow
def test_what_is_invalid_is_found_whatever_bytes_its_pointer_has(hbase_store: HBaseStore) -> None:
    start = prefix(TOPIC, 1)
    low = min(POINTERS) // 1_000_000
    batch = hbase_store.batch()
    for number, pointer in enumerate(POINTERS):
        value = transactional_start(pointer) + b"x" * 10
        batch.put(MESSAGE, start + KEY.pack(pointer // 1_000_000, number), value)
        batch.put(MESSAGE, start + KEY.pack(pointer // 1_000_000, 100 + number), b"\x00x")
    hbase_store.write(batch)
    StoreMetadataTable(hbase_store).replace(None, TopicMetadata(TOPIC, 1, 2**31 - 1, {}))
    for pointer in POINTERS:
        listed = partial(InvalidList, {pointer: pointer}, 2**63 - 1, 2**62, 2**62, 2**63 - 1)
        services = TableServices(hbase_store, listed)
        clock = ManualClock(low)
        steps = RegionCleaner(hbase_store, services, LIMITS, clock, workers=2).steps()
        assert sum(step.inverted for step in steps) == 1
        batch = hbase_store.batch()
        bounds = StoreBoundTable(hbase_store)
        bounds.delete(batch, MESSAGE, [bound.start for bound in bounds.bounds(MESSAGE)])
        hbase_store.write(batch)


@pytest.mark.slow
def test_regions_that_split_and_merge_in_the_meantime_are_all_cleaned_up(
    servers: HBaseServers, place: Place, filled: HBaseStore
) -> None:
    assert filled.row_of(MESSAGE, prefix(TOPIC, 1))[0] == BUCKETS - 1
    middle = filled.row_of(
        MESSAGE, prefix(TOPIC, 1) + KEY.pack(NOW_MS - TTL_S * 1000 - ROWS // 4, 0)
    )
    name = place.name_of(MESSAGE)
    before = len(filled.regions(MESSAGE))
    split = Thread(target=change, args=(servers, "split", name, middle))
    steps = cleaner_of(filled).steps()
    for _ in zip(range(8), steps, strict=False):
        pass
    split.start()
    for _ in steps:
        split.join(0.3)  # so that the pass does not end before the split
    split.join()
    assert len(filled.regions(MESSAGE)) == before + 1
    list(
        cleaner_of(filled).steps()
    )  # this pass uses the new regions, if the split was too late for the first one
    check_clean(filled)

    change(
        servers, "merge", name, b"\x00"
    )  # with the next region; neither is a result of the split
    assert len(filled.regions(MESSAGE)) == before
    list(cleaner_of(filled).steps())
    check_clean(filled)


@pytest.mark.slow
def test_a_ttl_that_is_raised_in_the_meantime_stops_the_deleting(filled: HBaseStore) -> None:
    steps = cleaner_of(filled, rows_max=100).steps()
    dropped = 0
    while not dropped:
        dropped += next(steps).dropped
    metadata = StoreMetadataTable(filled)
    old = metadata.get(TOPIC)
    assert old is not None
    assert metadata.replace(old, old.changed(TTL_S * 10, {}, NOW_MS))
    with filled.scan(MESSAGE, b"", b"\xff") as rows:
        left = {key for key, _ in rows}
    for _ in steps:
        pass

    with filled.scan(MESSAGE, b"", b"\xff") as rows:
        gone = left - {key for key, _ in rows}
    assert len(gone) <= 100, "what was under way"
    first_live_ms = NOW_MS - TTL_S * 1000
    assert gone < {key for key in left if written_ms(key) < first_live_ms}
    bounds = StoreBoundTable(filled).bounds(MESSAGE)
    assert least(bounds, FIRST, END) == 0, "a part was not searched"


@pytest.mark.slow
def test_a_gateway_that_is_restarted_in_the_middle_breaks_off_nothing(
    servers: HBaseServers, place: Place, filled: HBaseStore
) -> None:
    patient = HBaseStore(place, gateway_to(place, retry_s=60.0))
    steps = cleaner_of(patient).steps()
    for _ in zip(range(10), steps, strict=False):
        pass
    servers.kill("gateway")
    servers.start("gateway")
    list(steps)
    patient.close()

    check_clean(filled)


@pytest.mark.slow
def test_a_pass_that_fails_is_finished_by_the_next(
    servers: HBaseServers, place: Place, filled: HBaseStore
) -> None:
    hasty = HBaseStore(place, gateway_to(place, retry_s=0.1))
    steps = cleaner_of(hasty).steps()
    for _ in zip(range(10), steps, strict=False):
        pass
    servers.kill("gateway")
    with pytest.raises(StoreUnavailable):
        list(steps)
    servers.start("gateway")
    servers.wait_until_ready()
    hasty.close()
    after = HBaseStore(place, gateway_to(place))
    empty_lease(after)  # the lease of the failed process may still be held
    list(cleaner_of(after).steps())

    check_clean(after)
    after.close()


def empty_lease(store: HBaseStore) -> None:
    batch = store.batch()
    batch.delete("bound", b"lease:prune")
    store.write(batch)
    deleted_ms = SystemClock().now_ms()
    wait_until(lambda: SystemClock().now_ms() > deleted_ms, "a new lease is later than this")


@pytest.fixture
def two(
    place: Place, hbase_store: HBaseStore
) -> Iterator[tuple[CleanupLease, CleanupLease, ManualClock]]:
    clock = ManualClock(NOW_MS)
    other = HBaseStore(place, gateway_to(place))
    yield CleanupLease(hbase_store, clock), CleanupLease(other, clock), clock
    other.close()


@pytest.mark.slow
class TestLease:
    def test_one_at_a_time_has_it(
        self, two: tuple[CleanupLease, CleanupLease, ManualClock]
    ) -> None:
        first, second, _ = two
        assert first.take()
        assert not second.take()
        assert "process" in str(second.holder)
        first.release()
        assert second.take()
        assert second.holder is None

    def test_a_holder_that_is_gone_loses_it(
        self, two: tuple[CleanupLease, CleanupLease, ManualClock]
    ) -> None:
        first, second, clock = two
        assert first.take()
        clock.advance(59_000)
        assert not second.take()
        clock.advance(1_001)
        assert second.take()
        assert not first.keep()

    def test_a_holder_that_renews_keeps_it(
        self, two: tuple[CleanupLease, CleanupLease, ManualClock]
    ) -> None:
        first, second, clock = two
        assert first.take()
        for _ in range(10):
            clock.advance(20_000)
            assert first.keep()
            assert not second.take()
