"""Zeros behind the end of LevelDB's log: there for small batches, and never where batches are."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import plyvel
import pytest

from tables.leveldb import LevelDBStore
from tables.leveldb_log import newest_log, records_of
from tables.log_room import LogRoom
from tables.store import MESSAGE

_WRITE_BUFFER_BYTES = 1024 * 1024
_LARGE = 100_000
_ROOM_BYTES = 256 * 1024


class Writing:
    """A LevelDB whose log has room made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = self.open()
        self.room = LogRoom(path)
        self.rows: dict[bytes, bytes] = {}
        self._random = Random(1)

    def open(self) -> Any:
        return plyvel.DB(
            str(self.path),
            create_if_missing=True,
            paranoid_checks=True,
            write_buffer_size=_WRITE_BUFFER_BYTES,
        )

    def write(self, value_bytes: int) -> None:
        key, value = b"%d" % len(self.rows), self._random.randbytes(value_bytes)
        batch = self.handle.write_batch()
        batch.put(key, value)
        batch.write()
        self.room.written(batch.approximate_size())
        self.rows[key] = value

    def log(self) -> Path:
        log = newest_log(self.path)
        assert log is not None
        return log

    def zeros(self) -> int:
        """Return how many bytes of zeros, and of nothing else, are behind the batches."""
        data = self.log().read_bytes()
        end = max((record.stop for record in records_of(data)), default=0)
        assert not data[end:].strip(b"\0")
        return len(data) - end

    def check_rows(self) -> None:
        assert dict(self.handle) == self.rows
        self.handle.close()
        self.handle = self.open()
        assert dict(self.handle) == self.rows


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    writing = Writing(tmp_path)
    yield writing
    writing.handle.close()


def test_most_small_batches_find_room(writing: Writing) -> None:
    sizes = []
    for _ in range(3_000):
        writing.write(200)
        sizes.append(writing.log().stat().st_size)
    batch_bytes = sum(map(len, writing.rows.values()))

    assert writing.zeros() > 0
    assert len(set(sizes)) < batch_bytes / 200_000 + 2
    writing.check_rows()


def test_no_room_is_made_behind_large_batches(writing: Writing) -> None:
    for _ in range(5):
        writing.write(_LARGE)
        assert writing.zeros() == 0

    writing.write(200)
    assert writing.zeros() > 0
    writing.write(3 * _LARGE)
    assert writing.zeros() == 0
    writing.check_rows()


def test_room_is_made_in_each_new_log(writing: Writing) -> None:
    zeros: dict[Path, int] = {}
    for _ in range(100):
        for value_bytes in Random(1).choices([100, 5_000, 20_000], k=10):
            writing.write(value_bytes)
        log = writing.log()
        zeros[log] = max(zeros.get(log, 0), writing.zeros())

    zeros.popitem()  # of the last, which may have been begun just now
    assert len(zeros) > 5
    assert all(0 < most <= _ROOM_BYTES for most in zeros.values()), zeros
    writing.check_rows()


def test_a_log_begun_by_a_compaction_is_found(writing: Writing) -> None:
    for _ in range(3):
        writing.write(200)
        writing.handle.compact_range()
        for _ in range(300):
            writing.write(1_000)
        assert writing.zeros() > 0

    writing.check_rows()


def test_without_a_log_nothing_is_made(tmp_path: Path) -> None:
    LogRoom(tmp_path).written(100)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("sync", "makes_room"), [(True, True), (False, False)])
def test_a_store_makes_room_where_it_syncs(tmp_path: Path, *, sync: bool, makes_room: bool) -> None:
    store = LevelDBStore(tmp_path, sync=sync)
    batch = store.batch()
    batch.put(MESSAGE, b"k", b"v")
    store.write(batch)
    log = newest_log(tmp_path / "leveldb")
    assert log is not None
    size = log.stat().st_size
    store.close()

    assert (size > 10_000) == makes_room
