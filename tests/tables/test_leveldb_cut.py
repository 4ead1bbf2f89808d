"""Cuts of LevelDB's files: what they do while writes are stopped, and when they begin again."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.leveldb_cut import take_cut
from tables.leveldb_files import check_files
from tables.store import MESSAGE
from tests.tables.filled_stores import fill
from tests.work import counted

EDIT = b"\x03\xc0\x84\x3d"
"""An edit of the MANIFEST: the next file has number 1,000,000."""


@pytest.fixture
def leveldb(tmp_path: Path) -> Path:
    """Return a folder with a table."""
    store = LevelDBStore(tmp_path / "store", sync=False)
    fill(store, 1)
    store.compact(MESSAGE, b"", b"\xff")
    store.close()
    return tmp_path / "store/leveldb"


def append(leveldb: Path, edits: int) -> None:
    """Append edits to the MANIFEST, one record each."""
    manifest = leveldb / (leveldb / "CURRENT").read_text().strip()
    record = struct.pack("<IHB", 0, len(EDIT), 1) + EDIT
    with manifest.open("ab") as log:
        for _ in range(edits):
            left = 32_768 - log.tell() % 32_768
            log.write(record if len(record) <= left else bytes(left) + record)


def test_a_large_manifest_stops_writes_no_longer(leveldb: Path, tmp_path: Path) -> None:
    lines = []

    @contextmanager
    def no_writes() -> Iterator[None]:
        with counted() as work:
            yield
        lines.append(work.lines)

    for name, edits in (("first", 0), ("small", 0), ("large", 10_000)):
        append(leveldb, edits)
        take_cut(leveldb, tmp_path / name, no_writes)
        check_files(tmp_path / name)
        assert len(list((tmp_path / name).glob("*.ldb"))) == 1
    assert lines[1] == lines[2], "the first fills caches"


def test_a_cut_that_misses_a_table_begins_again(leveldb: Path, tmp_path: Path) -> None:
    [table] = leveldb.glob("*.ldb")
    elsewhere = table.rename(tmp_path / table.name)
    stops = 0

    @contextmanager
    def no_writes() -> Iterator[None]:
        nonlocal stops
        yield
        append(leveldb, 1)
        stops += 1
        if stops == 2:
            elsewhere.rename(table)

    take_cut(leveldb, tmp_path / "cut", no_writes)
    check_files(tmp_path / "cut")
    assert stops == 3
