"""The physical records of LevelDB's newest log, so that tests can tear and damage it.

block := record* trailer?         32,768 bytes
record := crc32c uint32, length uint16, type uint8, data         little-endian
trailer := fewer than seven zeros, where no record's head fits any more
"""

import struct
from pathlib import Path
from typing import NamedTuple

BLOCK_BYTES = 32_768
_HEAD = struct.Struct("<IHB")
HEAD_BYTES = _HEAD.size


class Record(NamedTuple):
    """Where a physical record stands in the file, its head included."""

    start: int
    stop: int


def newest_log(folder: Path) -> Path:
    """Return the log that LevelDB was writing last in a data folder."""
    return max((folder / "leveldb").glob("*.log"), key=lambda path: int(path.stem))


def records_of(log: Path) -> list[Record]:
    """Return the records of a log that nobody writes to."""
    data = log.read_bytes()
    records: list[Record] = []
    at = 0
    while at + HEAD_BYTES <= len(data):
        left_in_block = BLOCK_BYTES - at % BLOCK_BYTES
        if left_in_block < HEAD_BYTES:
            at += left_in_block
            continue
        _, length, _ = _HEAD.unpack_from(data, at)
        if at + HEAD_BYTES + length > len(data):
            break
        records.append(Record(at, at + HEAD_BYTES + length))
        at = records[-1].stop
    return records
