"""Where tables are in LevelDB: folders of both formats, and what new ones spare LevelDB."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import plyvel
import pytest

from tables.leveldb import LevelDBStore
from tables.leveldb_layout import PREFIXES
from tables.store import MESSAGE, METADATA, TRANSACTION, Row

_ROWS = 1_000
_BATCHES = 120
"""12 MB in all: more than LevelDB keeps unmerged of files that overlap (10 MB)."""


def make_folder(path: Path, number: int) -> None:
    path.joinpath("format.json").write_text(json.dumps({"format": number}))


def format_of(path: Path) -> object:
    return json.loads(path.joinpath("format.json").read_text())["format"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_folder_keeps_its_format(tmp_path: Path, number: int) -> None:
    make_folder(tmp_path, number)
    prefixes = PREFIXES[number]
    with plyvel.DB(str(tmp_path / "leveldb"), create_if_missing=True) as handle:
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
    assert format_of(tmp_path) == number
    with plyvel.DB(str(tmp_path / "leveldb")) as handle:
        assert dict(handle) == {prefix + b"bc": b"new" for prefix in prefixes.values()}


def test_a_new_folder_has_the_newest_format(tmp_path: Path) -> None:
    LevelDBStore(tmp_path).close()

    assert format_of(tmp_path) == max(PREFIXES)


def messages(batch: int) -> Iterator[Row]:
    """Give rows as they follow one another in a topic; bytes that do not compress."""
    random = Random(batch)
    for row in range(_ROWS):
        yield b"topic%08d" % (batch * _ROWS + row), random.randbytes(100)


@pytest.mark.parametrize(("number", "merges"), [(1, True), (2, False)])
def test_messages_of_the_last_topic_are_never_merged(
    tmp_path: Path, number: int, *, merges: bool
) -> None:
    make_folder(tmp_path, number)
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
