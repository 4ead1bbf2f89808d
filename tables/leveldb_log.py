"""Reads the records of files in LevelDB's log format: its logs and its MANIFEST.

A block is 32,768 bytes. A record is a head of seven bytes (checksum uint32, length uint16, kind
uint8, little-endian) and its data, within one block. A longer entry has several records, and the
kind of each says which part it is. LevelDB's `doc/log_format.md` defines the format.

Checksums are not verified here: LevelDB does that when it opens the file.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

BLOCK_BYTES = 32_768
_HEAD = struct.Struct("<IHB")
HEAD_BYTES = _HEAD.size
_NOTHING, _FULL, _FIRST, _LAST = 0, 1, 2, 4


class LogRecord(NamedTuple):
    """The place of a record, with its head."""

    start: int
    stop: int
    kind: int


def records_of(log: bytes) -> Iterator[LogRecord]:
    """Yield the records up to one that is incomplete, which a crash may leave at the end."""
    at = 0
    while True:
        in_block = BLOCK_BYTES - at % BLOCK_BYTES
        if in_block < HEAD_BYTES:
            at += in_block
        if at + HEAD_BYTES > len(log):
            return
        _, length, kind = _HEAD.unpack_from(log, at)
        if kind == _NOTHING and length == 0:
            at += BLOCK_BYTES - at % BLOCK_BYTES  # LevelDB does not treat zeros as damage
            continue
        stop = at + HEAD_BYTES + length
        if stop > len(log):
            return
        yield LogRecord(at, stop, kind)
        at = stop


def entries_of(log: bytes) -> Iterator[bytes]:
    """Yield each appended entry, in one piece."""
    entry = b""
    for record in records_of(log):
        if record.kind in (_FULL, _FIRST):
            entry = b""
        entry += log[record.start + HEAD_BYTES : record.stop]
        if record.kind in (_FULL, _LAST):
            yield entry


def whole_entries(log: bytes) -> bytes:
    """Return the log without an incomplete entry at its end."""
    ends = [record.stop for record in records_of(log) if record.kind in (_FULL, _LAST)]
    return log[: ends[-1]] if ends else b""
