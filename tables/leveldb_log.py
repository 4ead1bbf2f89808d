"""The records of a file in LevelDB's log format, which its logs and its MANIFEST have.

A block is 32,768 bytes. A record is a head of seven bytes (checksum uint32, length uint16, kind
uint8, little-endian) and its data, within one block. What is longer is in several records, and a
kind says which of them one is. LevelDB's `doc/log_format.md`.

Checksums are not looked at: LevelDB does that when it opens the file.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

BLOCK_BYTES = 32_768
_HEAD = struct.Struct("<IHB")
HEAD_BYTES = _HEAD.size
_NOTHING, _FULL, _FIRST, _LAST = 0, 1, 2, 4


class LogRecord(NamedTuple):
    """Where a record is: from its head on."""

    start: int
    stop: int
    kind: int


def records_of(log: bytes) -> Iterator[LogRecord]:
    """Give the records up to one that is incomplete, which a crash may leave at the end."""
    at = 0
    while True:
        left = BLOCK_BYTES - at % BLOCK_BYTES
        if left < HEAD_BYTES:
            at += left
        if at + HEAD_BYTES > len(log):
            return
        _, length, kind = _HEAD.unpack_from(log, at)
        if kind == _NOTHING and length == 0:
            at += BLOCK_BYTES - at % BLOCK_BYTES  # LevelDB takes no zeros for damage
            continue
        stop = at + HEAD_BYTES + length
        if stop > len(log):
            return
        yield LogRecord(at, stop, kind)
        at = stop


def entries_of(log: bytes) -> Iterator[bytes]:
    """Give what was appended, each in one piece."""
    entry = b""
    for record in records_of(log):
        if record.kind in (_FULL, _FIRST):
            entry = b""
        entry += log[record.start + HEAD_BYTES : record.stop]
        if record.kind in (_FULL, _LAST):
            yield entry
