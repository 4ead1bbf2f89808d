"""The Transaction table, on every store, and on one whose batches are not atomic."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.memory import MemoryBatch, MemoryStore
from tables.store import TRANSACTION, Store
from tables.transaction_table import StoreTransactionTable
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.values.batch import Batch

MIB = 1024 * 1024
BIG = bytes(range(256)) * (4096 * 2) + b"the rest"
"""A value of two chunks and a bit more."""


@pytest.fixture(params=["memory", "leveldb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = (
        MemoryStore() if request.param == "memory" else LevelDBStore(tmp_path, sync=False)
    )
    yield store
    store.close()


@pytest.fixture
def table(store: Store) -> StoreTransactionTable:
    return StoreTransactionTable(store)


def append(store: Store, table: StoreTransactionTable, *sequences: int) -> None:
    batch = store.batch()
    for sequence in sequences:
        table.append(batch, sequence, b"row %d" % sequence)
    store.write(batch)


class TestLog:
    def test_rows_come_in_their_order_from_where_they_are_asked_for(
        self, store: Store, table: StoreTransactionTable
    ) -> None:
        append(store, table, *range(250))
        table.put_snapshot(7, b"between")

        assert list(table.rows(0)) == [(n, b"row %d" % n) for n in range(250)]
        assert [n for n, _ in table.rows(248)] == [248, 249]
        assert list(table.rows(250)) == []

    def test_a_gap_is_given_as_it_is(self, store: Store, table: StoreTransactionTable) -> None:
        append(store, table, 1, 2**40)

        assert [n for n, _ in table.rows(0)] == [1, 2**40]

    def test_a_key_that_is_not_a_number_is_damage(
        self, store: Store, table: StoreTransactionTable
    ) -> None:
        batch = store.batch()
        batch.put(TRANSACTION, b"e\x01", b"")
        store.write(batch)

        with pytest.raises(StoreCorrupt):
            list(table.rows(0))


class TestSnapshots:
    @pytest.mark.parametrize("data", [b"", b"small", bytes(MIB), BIG])
    def test_what_was_put_is_there(self, table: StoreTransactionTable, data: bytes) -> None:
        table.put_snapshot(3, data)
        table.put_snapshot(12, b"later")

        assert table.snapshots() == [3, 12]
        assert table.snapshot(3) == data

    def test_one_that_is_there_stays(self, table: StoreTransactionTable) -> None:
        table.put_snapshot(3, b"first")
        table.put_snapshot(3, b"second")

        assert table.snapshot(3) == b"first"

    @pytest.mark.parametrize("at", [0, MIB - 1, MIB, len(BIG) - 1])
    def test_a_flipped_bit_is_damage(
        self, store: Store, table: StoreTransactionTable, at: int
    ) -> None:
        table.put_snapshot(3, BIG)
        key = b"s" + struct.pack(">qI", 3, at // MIB)
        chunk = bytearray(store.get(TRANSACTION, key) or b"")
        chunk[at % MIB] ^= 1
        store.compare_and_put(TRANSACTION, key, store.get(TRANSACTION, key), bytes(chunk))

        with pytest.raises(StoreCorrupt) as caught:
            table.snapshot(3)
        assert caught.value.detail["snapshot"] == 3

    @pytest.mark.parametrize("chunk", [0, 1, 2])
    def test_a_missing_chunk_is_damage(
        self, store: Store, table: StoreTransactionTable, chunk: int
    ) -> None:
        table.put_snapshot(3, BIG)
        batch = store.batch()
        batch.delete(TRANSACTION, b"s" + struct.pack(">qI", 3, chunk))
        store.write(batch)

        with pytest.raises(StoreCorrupt):
            table.snapshot(3)

    @pytest.mark.parametrize("end", [b"", b"short", bytes(13)])
    def test_a_wrong_end_is_damage(
        self, store: Store, table: StoreTransactionTable, end: bytes
    ) -> None:
        batch = store.batch()
        batch.put(TRANSACTION, b"s" + struct.pack(">qI", 3, 2**32 - 1), end)
        store.write(batch)

        with pytest.raises(StoreCorrupt):
            table.snapshot(3)


class TearingStore(MemoryStore):
    """A store without atomic batches: it dies after this number of puts and deletes."""

    atomic = False
    is_embedded = False
    reads_at_once = 1

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def write(self, batch: Batch) -> None:
        """Carry out as many puts and deletes as remain until it dies."""
        assert isinstance(batch, MemoryBatch)
        part = MemoryBatch()
        part.writes = batch.writes[: self.steps]
        super().write(part)
        self.steps -= len(batch.writes)
        if self.steps < 0:
            raise StoreUnavailable(reason="died")


class TestTorn:
    @pytest.mark.parametrize("steps", range(4))
    def test_a_snapshot_put_in_part_is_none_and_can_be_put_again(self, steps: int) -> None:
        store = TearingStore(steps)
        table = StoreTransactionTable(store)
        with pytest.raises(StoreUnavailable):
            table.put_snapshot(5, BIG)
        assert table.snapshots() == []

        store.steps = 100
        table.put_snapshot(5, b"a shorter one")

        assert table.snapshots() == [5]
        assert table.snapshot(5) == b"a shorter one"

    @pytest.mark.parametrize("steps", range(1, 7))
    def test_what_is_left_of_a_dropped_snapshot_is_not_a_snapshot(self, steps: int) -> None:
        store = TearingStore(100)
        table = StoreTransactionTable(store)
        table.put_snapshot(5, BIG)
        append(store, table, 5, 6, 7)
        store.steps = steps
        with pytest.raises(StoreUnavailable):
            table.drop_before(8, 100)

        assert table.snapshots() == []


class TestDropping:
    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_all_below_goes_in_slices_and_the_rest_stays(
        self, store: Store, table: StoreTransactionTable, limit: int
    ) -> None:
        append(store, table, *range(10))
        for sequence in (0, 3, 6):
            table.put_snapshot(sequence, BIG if sequence == 3 else b"x")
        counts: list[int] = []
        while not counts or counts[-1] == limit:
            counts.append(table.drop_before(6, limit))

        assert sum(counts) == 6 + 2 + 4
        assert table.snapshots() == [6]
        assert table.snapshot(6) == b"x"
        assert [n for n, _ in table.rows(0)] == [6, 7, 8, 9]

    def test_a_snapshot_put_in_part_goes_too(self) -> None:
        store = TearingStore(2)
        table = StoreTransactionTable(store)
        with pytest.raises(StoreUnavailable):
            table.put_snapshot(5, BIG)
        store.steps = 100

        assert table.drop_before(6, 100) == 2
        assert table.drop_before(6, 100) == 0
