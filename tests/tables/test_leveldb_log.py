"""LevelDB's log: what a crash tore is cut off, damage is left alone. The logs are LevelDB's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tables.leveldb import LevelDBStore
from tables.leveldb_log import (
    BLOCK_BYTES,
    HEAD_BYTES,
    SECTOR_BYTES,
    end_of_batch,
    newest_log,
    records_of,
    tear_of,
)
from tables.store import MESSAGE
from tests.contracts.store_contract import rows_of
from tms.core.errors import StoreCorrupt

Sizes = list[int]

SIZES = st.lists(
    st.integers(1, 3 * BLOCK_BYTES)
    | st.integers(1, 300)
    | st.integers(-60, 0).map(lambda less: BLOCK_BYTES + less),
    min_size=1,
    max_size=6,
)
ROOM = st.sampled_from([0, 1, 100, SECTOR_BYTES, 3 * BLOCK_BYTES])


class Written(NamedTuple):
    """A log in a data folder, and where each of its batches begins and the last one ends."""

    folder: Path
    log: Path
    bounds: list[int]


def value_of(number: int, size: int) -> bytes:
    """Return bytes that stay other than zero with any one bit of them changed."""
    return bytes(byte | 3 for byte in Random(number).randbytes(size))


def write_batches(folder: Path, sizes: Sizes) -> Written:
    """Let LevelDB write a batch of one row of each size, and leave its log as it is."""
    store = LevelDBStore(folder, sync=False)
    log = newest_log(folder / "leveldb")
    assert log is not None
    bounds = [0]
    for number, size in enumerate(sizes):
        batch = store.batch()
        batch.put(MESSAGE, b"%d" % number, value_of(number, size))
        store.write(batch)
        bounds.append(log.stat().st_size)
    store.close()
    return Written(folder, log, bounds)


@contextmanager
def written(sizes: Sizes) -> Iterator[Written]:
    """Write batches into a folder that is removed afterwards: each example has its own."""
    with TemporaryDirectory() as folder:
        yield write_batches(Path(folder), sizes)


def check_opens_with(folder: Path, sizes: Sizes) -> None:
    """Check that these rows are in the folder, and that it takes others."""
    expected = [(b"%d" % number, value_of(number, size)) for number, size in enumerate(sizes)]
    store = LevelDBStore(folder)
    assert rows_of(store, MESSAGE) == expected
    batch = store.batch()
    batch.put(MESSAGE, b"new", b"row")
    store.write(batch)
    store.close()

    store = LevelDBStore(folder)
    assert rows_of(store, MESSAGE) == [*expected, (b"new", b"row")]
    store.close()


@given(sizes=SIZES)
def test_a_log_is_read_as_leveldb_writes_it(sizes: Sizes) -> None:
    with written(sizes) as (_, log, bounds):
        data = log.read_bytes()

    records = list(records_of(data))
    starts = [record.start for record in records if record.kind in (1, 2)]
    stops = [record.stop for record in records if record.kind in (1, 4)]
    assert stops == bounds[1:]
    assert all(0 <= start - end < HEAD_BYTES for start, end in zip(starts, bounds, strict=False))
    assert tear_of(data) is None
    assert tear_of(data + bytes(BLOCK_BYTES)) is None


@given(batch_bytes=st.lists(st.integers(12, 3 * BLOCK_BYTES), min_size=1, max_size=20))
def test_a_batch_takes_its_bytes_a_head_a_block_and_trailers(batch_bytes: list[int]) -> None:
    end = 0
    for size in batch_bytes:
        start, end = end, end_of_batch(end, size)
        blocks = (end - 1) // BLOCK_BYTES - start // BLOCK_BYTES + 1
        assert 0 <= end - start - size - HEAD_BYTES <= (blocks - 1) * 2 * HEAD_BYTES


@given(sizes=SIZES)
def test_the_end_of_a_batch_is_where_leveldb_ends_it(sizes: Sizes) -> None:
    end, expected = 0, [0]
    for number, size in enumerate(sizes):
        key_bytes = len(b"z%d" % number)
        varint_bytes = 1 + (size > 127) + (size > 16_383)
        end = end_of_batch(end, 12 + 1 + 1 + key_bytes + varint_bytes + size)
        expected.append(end)
    with written(sizes) as (_, _, bounds):
        assert bounds == expected


@given(sizes=SIZES, room=ROOM, data=st.data())
def test_a_batch_of_which_sectors_are_missing_is_cut_off(
    sizes: Sizes, room: int, data: st.DataObject
) -> None:
    """As a power failure leaves it: what was not written yet is zeros."""
    with written(sizes) as (folder, log, bounds):
        start, stop = bounds[-2:]
        sectors = st.integers(start // SECTOR_BYTES, (stop - 1) // SECTOR_BYTES)
        whole = log.read_bytes()
        torn = bytearray(whole)
        for sector in data.draw(st.sets(sectors, min_size=1)):
            first = max(start, sector * SECTOR_BYTES)
            last = min(stop, (sector + 1) * SECTOR_BYTES)
            torn[first:last] = bytes(last - first)
        assume(torn != whole)  # as where nothing but a trailer was in them
        log.write_bytes(torn + bytes(room))

        check_opens_with(folder, sizes[:-1])


@given(sizes=SIZES, room=ROOM, data=st.data())
def test_a_batch_of_which_the_end_is_missing_is_cut_off(
    sizes: Sizes, room: int, data: st.DataObject
) -> None:
    """As a process leaves it that was killed, or whose disk was full."""
    with written(sizes) as (folder, log, bounds):
        stop = data.draw(st.integers(bounds[-2], bounds[-1] - 1))
        log.write_bytes(log.read_bytes()[:stop] + bytes(room))

        check_opens_with(folder, sizes[:-1])


@given(sizes=SIZES, room=ROOM, data=st.data())
def test_damage_is_refused_and_nothing_is_cut_off(
    sizes: Sizes, room: int, data: st.DataObject
) -> None:
    with written(sizes) as (folder, log, _):
        whole = log.read_bytes()
        damaged = bytearray(whole)
        record = data.draw(st.sampled_from(list(records_of(whole))))
        # LevelDB takes a length that is too great, near the end of the file, for the end.
        lengths = range(record.start + 4, record.start + 6)
        at = data.draw(
            st.integers(record.start, record.stop - 1).filter(lambda at: at not in lengths)
        )
        damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        log.write_bytes(damaged + bytes(room))

        for _ in range(2):
            with pytest.raises(StoreCorrupt):
                LevelDBStore(folder)
        assert log.read_bytes() == damaged + bytes(room)


@pytest.mark.parametrize("length_bit", range(16))
def test_a_wrong_length_amid_whole_batches_is_damage(tmp_path: Path, length_bit: int) -> None:
    """It reaches over whole batches, or into the zeros behind them all."""
    _, log, bounds = write_batches(tmp_path, [50] * 5)
    damaged = bytearray(log.read_bytes()) + bytes(BLOCK_BYTES)
    damaged[bounds[1] + 4 + length_bit // 8] ^= 1 << length_bit % 8

    assert tear_of(bytes(damaged)) is None


def test_zeros_that_belong_to_a_damaged_record_do_not_make_a_tear_of_it(tmp_path: Path) -> None:
    """A batch begins with zeros, here the last that fit into a block."""
    _, log, bounds = write_batches(tmp_path, [BLOCK_BYTES - 45, 100])
    damaged = bytearray(log.read_bytes())
    damaged[bounds[1]] ^= 1

    assert damaged[bounds[1] + HEAD_BYTES : BLOCK_BYTES].endswith(b"\0")
    assert tear_of(bytes(damaged)) is None


def test_a_batch_that_ends_with_a_block_and_zeros_is_cut_off(tmp_path: Path) -> None:
    _, log, bounds = write_batches(tmp_path, [100, 3 * BLOCK_BYTES])
    log.write_bytes(log.read_bytes()[:BLOCK_BYTES] + bytes(2 * BLOCK_BYTES))

    check_opens_with(tmp_path, [100])
    assert bounds[1] < BLOCK_BYTES


def test_a_missing_batch_before_whole_ones_is_damage(tmp_path: Path) -> None:
    _, log, bounds = write_batches(tmp_path, [2 * BLOCK_BYTES] * 3)
    holed = bytearray(log.read_bytes())
    holed[bounds[1] : bounds[2] - 100] = bytes(bounds[2] - 100 - bounds[1])
    log.write_bytes(holed)

    with pytest.raises(StoreCorrupt):
        LevelDBStore(tmp_path)
    assert log.read_bytes() == holed


def test_what_was_cut_off_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, log, bounds = write_batches(tmp_path, [50, 1000])
    log.write_bytes(log.read_bytes()[: bounds[1] + 600] + bytes(BLOCK_BYTES))

    LevelDBStore(tmp_path).close()

    (record,) = [record for record in caplog.records if record.name == "tables.leveldb"]
    assert record.getMessage() == "a crash tore the last write: 600 bytes of it are cut off"
