"""Layouts of tables in LevelDB: folders of both, and the work that the new one saves."""

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tables.leveldb import LevelDBStore
from tables.leveldb_binding import plyvel
from tables.leveldb_layout import PREFIXES
from tables.store import MESSAGE, METADATA, TRANSACTION, Row
from tests.tables.folders import Recorded, make_folder, recorded_of
from tms.core.errors import StoreFormatUnknown, StoreUnavailable

_ROWS = 1_000
_BATCHES = 120
"""12 MB in all: more than LevelDB keeps unmerged of files that overlap (10 MB)."""


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("is_older", [True, False])
def test_a_folder_gets_the_present_format_and_keeps_its_layout(
    tmp_path: Path, layout: int, *, is_older: bool
) -> None:
    present: Recorded = {"format": 3, "layout": layout}
    make_folder(tmp_path, {"format": layout} if is_older else present)
    prefixes = PREFIXES[layout]
    with plyvel.DB(str(tmp_path / "leveldb")) as handle:
        for table, prefix in prefixes.items():
            handle.put(prefix + b"a", table.encode())

    store = LevelDBStore(tmp_path)
    found = {table: store.get(table, b"a") for table in prefixes}
    batch = store.batch()
    for table in prefixes:
        batch.put_rows(table, [(b"c", b"new")], prefix=b"b")
        batch.delete(table, b"a")
    store.write(batch)
    store.close()

    assert found == {table: table.encode() for table in prefixes}
    assert recorded_of(tmp_path) == present
    with plyvel.DB(str(tmp_path / "leveldb")) as handle:
        assert dict(handle) == {prefix + b"bc": b"new" for prefix in prefixes.values()}


def test_a_new_folder_has_the_present_format_and_layout(tmp_path: Path) -> None:
    LevelDBStore(tmp_path).close()

    assert recorded_of(tmp_path) == {"format": 3, "layout": 2}


@pytest.mark.parametrize(
    "recorded",
    [
        {"format": 5, "layout": 2},
        {"format": 4, "layout": 3},
        {"features": ["groups"], "format": 3, "layout": 2},
        {"features": ["groups", "later"], "format": 4, "layout": 2},
        {"features": 7, "format": 4, "layout": 2},
        {"format": 4, "layout": 2, "shard": 3},
        {"format": 3},
        {"format": 3, "layout": 3},
        {"format": 3, "layout": True},
        {"format": 0},
        {"format": True},
        {"format": "3", "layout": 2},
    ],
)
def test_what_is_recorded_otherwise_is_refused_and_left(tmp_path: Path, recorded: Recorded) -> None:
    make_folder(tmp_path, recorded)

    with pytest.raises(StoreFormatUnknown):
        LevelDBStore(tmp_path)
    assert recorded_of(tmp_path) == recorded


@pytest.mark.parametrize(
    "recorded",
    [
        {"by": "topic", "format": 4, "shards": 4},
        {"by": "topic", "format": 4, "layout": 2, "shard": 3, "shards": 4},
    ],
)
def test_a_folder_with_shards_is_a_later_versions(tmp_path: Path, recorded: Recorded) -> None:
    make_folder(tmp_path, recorded)

    with pytest.raises(StoreFormatUnknown, match=r"'by', .*'shards'.* use that version"):
        LevelDBStore(tmp_path)
    assert recorded_of(tmp_path) == recorded


def test_a_crash_while_the_format_is_raised_leaves_one_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path, {"format": 1})

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "made to fail")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fail)
        with pytest.raises(StoreUnavailable):
            LevelDBStore(tmp_path)
    assert recorded_of(tmp_path) == {"format": 1}

    LevelDBStore(tmp_path).close()
    assert recorded_of(tmp_path) == {"format": 3, "layout": 1}


def messages(batch: int) -> Iterator[Row]:
    """Yield successive rows of a topic, with bytes that do not compress."""
    random = Random(batch)
    for row in range(_ROWS):
        yield b"topic%08d" % (batch * _ROWS + row), random.randbytes(100)


@pytest.mark.parametrize(("layout", "merges"), [(1, True), (2, False)])
def test_messages_of_the_last_topic_are_never_merged(
    tmp_path: Path, layout: int, *, merges: bool
) -> None:
    make_folder(tmp_path, {"format": 3, "layout": layout})
    store = LevelDBStore(tmp_path, sync=False, write_buffer_bytes=256 * 1024)
    for index in range(_BATCHES):
        batch = store.batch()
        if index == 0:
            batch.put(METADATA, b"topic", b"")
            batch.put(TRANSACTION, b"snapshot", b"")
        batch.put_rows(MESSAGE, messages(index))
        store.write(batch)
    store.close()

    log = (tmp_path / "leveldb" / "LOG").read_text()
    assert log.count("Level-0 table") > _BATCHES // 4
    assert ("Compacting" in log) == merges
