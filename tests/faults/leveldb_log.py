"""Where the records of LevelDB's log stand, for tests that tear and damage it.

A block is 32,768 bytes. A record is a head of seven bytes (checksum uint32, length uint16, type
uint8, little-endian) and its data, within one block. LevelDB's `doc/log_format.md`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK_BYTES = 32_768
_HEAD = struct.Struct("<IHB")
HEAD_BYTES = _HEAD.size


class Record(NamedTuple):
    """Where a record is: from its head on."""

    start: int
    stop: int


def newest_log(leveldb: Path) -> Path:
    """Return the log that LevelDB was writing last in its folder."""
    return max(leveldb.glob("[0-9]*.log"), key=lambda path: int(path.stem))


def records_of(log: bytes) -> Iterator[Record]:
    """Give the records of a log that is whole."""
    at = 0
    while at < len(log):
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < HEAD_BYTES:
            at += left
            continue
        _, length, _ = _HEAD.unpack_from(log, at)
        stop = at + HEAD_BYTES + length
        yield Record(at, stop)
        at = stop
