"""Checks that LevelDB's folder has the files that its MANIFEST names, before LevelDB opens it.

LevelDB does not notice a missing log, and without CURRENT it makes an empty store. So this
compares:

    CURRENT          names the MANIFEST
    MANIFEST-NUMBER  names the tables, with their sizes, and the oldest log that is still needed
    NUMBER.ldb       a table
    NUMBER.log       a log: writes that are in no table yet

The check writes nothing. It cannot detect that a log was cut at its end, because a crash leaves the
same; nor that the second log is lost, which exists while LevelDB makes a table of the first.

A MANIFEST is a log whose entries are edits (LevelDB's `db/version_edit.cc`). An edit is a sequence
of fields, each a tag and its values. A value is a varint, or bytes after their length. Like
LevelDB, this ignores an edit that a crash has cut: it was not carried out, so the files of the
edits before it still exist.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tables.leveldb_log import entries_of
from tms.core.errors import StoreFileLost
from tms.core.values.varints import read_varint

CURRENT = "CURRENT"
_MANIFEST = re.compile(rb"(MANIFEST-\d+)\n")
_LOG, _NEXT_FILE, _LAST_SEQUENCE, _TABLE_GONE, _TABLE = 2, 3, 4, 6, 7
_VALUES = {1: "b", _LOG: "n", _NEXT_FILE: "n", _LAST_SEQUENCE: "n", 5: "nb"} | {
    _TABLE_GONE: "nn",  # level, number
    _TABLE: "nnnbb",  # level, number, size, first key, last key
    9: "n",
}
"""The values of a field by its tag: numbers and bytes."""


class Manifest(NamedTuple):
    """The files that must exist."""

    table_bytes: dict[int, int]
    """The size of each table by its number."""
    oldest_log: int
    """The number of the oldest log that is needed; 0 if none is."""


def check_files(leveldb: Path) -> None:
    """Raise `StoreFileLost` if a file is lost or cut in LevelDB's folder; `OSError`."""
    if not leveldb.is_dir():
        raise _lost(leveldb)
    manifest = read_manifest(leveldb)
    for number, size in manifest.table_bytes.items():
        table = _table(leveldb, number)
        size_found = table.stat().st_size
        if size_found != size:
            raise _lost(table, f"it has {size_found} bytes, but {size} were written")
    if manifest.oldest_log:
        log = leveldb / f"{manifest.oldest_log:06}.log"
        if not log.is_file():
            raise _lost(log)


def read_manifest(leveldb: Path) -> Manifest:
    """Return the files that a folder's MANIFEST names. Raises `StoreFileLost`, `OSError`."""
    current = leveldb / CURRENT
    named = _MANIFEST.fullmatch(_read(current))
    if named is None:
        raise _lost(current, "it does not name a MANIFEST")
    path = leveldb / named[1].decode()
    table_bytes: dict[tuple[int, int], int] = {}
    numbers: dict[int, int] = {}
    try:
        for edit in entries_of(_read(path)):
            for tag, values in _fields(edit):
                if tag == _TABLE_GONE:
                    table_bytes.pop((values[0], values[1]), None)
                elif tag == _TABLE:
                    table_bytes[values[0], values[1]] = values[2]
                elif values:
                    numbers[tag] = values[0]
    except (LookupError, ValueError):
        raise _lost(path, "it cannot be read") from None
    if not {_LOG, _NEXT_FILE, _LAST_SEQUENCE} <= numbers.keys():
        raise _lost(path, "its beginning is not complete")
    return Manifest({number: size for (_, number), size in table_bytes.items()}, numbers[_LOG])


def _fields(edit: bytes) -> Iterator[tuple[int, list[int]]]:
    """Yield the tag and the numbers of each field. Raises `LookupError` for an unknown tag."""
    at = 0
    while at < len(edit):
        tag, at = read_varint(edit, at)
        numbers = []
        for kind in _VALUES[tag]:
            number, at = read_varint(edit, at)
            if kind == "n":
                numbers.append(number)
            else:
                at += number
        yield tag, numbers


def _table(leveldb: Path, number: int) -> Path:
    """Return the file of a table, which early versions of LevelDB called `.sst`."""
    named = [leveldb / f"{number:06}{ending}" for ending in (".ldb", ".sst")]
    for path in named:
        if path.is_file():
            return path
    raise _lost(named[0])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _lost(path) from None


def _lost(path: Path, reason: str = "it is missing") -> StoreFileLost:
    return StoreFileLost(file=str(path), reason=reason)
