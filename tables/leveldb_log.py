"""LevelDB's log as bytes: its records, and the tear that a crash may leave where it ends.

    log     := block*                                32,768 bytes each; the last may be shorter
    block   := record* trailer?
    record  := head, data                            within one block
    head    := crc32c uint32, masked, of type and data; length uint16 of data; type uint8
    trailer := fewer than seven zeros, where no head fits any more

Numbers are little-endian. A batch is one record (type 1), or one for each block that it extends
over: a first (2), any number in the middle (3), a last (4). LevelDB's `doc/log_format.md`.

Behind the last batch there are zeros (`tables.log_room`). So of the batch that was being written at
a crash there may be its beginning, and after a power failure any of its sectors, and zeros where
the others would be. LevelDB has no way to know that for what it is: it refuses to open the log, as
damaged. What makes a tear of it, and not damage, is that all batches before were synced: only the
last one can be there in part, and what is not there is zeros.
"""

import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from google_crc32c import value as crc32c

BLOCK_BYTES = 32_768
SECTOR_BYTES = 512
"""The least that a disk writes whole."""

_HEAD = struct.Struct("<IHB")
HEAD_BYTES = _HEAD.size
_FULL, _FIRST, _MIDDLE, _LAST = range(1, 5)
_BEGINS_BATCH = (_FULL, _FIRST)
_ENDS_BATCH = (_FULL, _LAST)


class Record(NamedTuple):
    """A record that is there whole, and where: from its head on, up to where the next may stand."""

    start: int
    stop: int
    kind: int


def newest_log(leveldb: Path) -> Path | None:
    """Return the log that LevelDB was writing last in its folder, None where there is none."""
    return max(leveldb.glob("[0-9]*.log"), key=lambda path: int(path.stem), default=None)


def end_of_batch(start: int, batch_bytes: int) -> int:
    """Return where the log ends when LevelDB has added a batch where it ended at `start`."""
    end = start
    while True:
        end = _next_head(end)
        part = min(batch_bytes, _block_end(end) - end - HEAD_BYTES)
        end += HEAD_BYTES + part
        batch_bytes -= part
        if not batch_bytes:
            return end


def records_of(log: bytes, start: int = 0) -> Iterator[Record]:
    """Give the records from `start` on, which is where one stands, as long as they are whole."""
    while (record := _record_at(log, _next_head(start))) is not None:
        yield record
        start = record.stop


def tear_of(log: bytes) -> int | None:
    """Return where the whole batches end in a log that was torn while one more was written.

    None where nothing is torn, and where what is wrong is no tear, but damage.
    """
    batches_end = records_end = 0
    for record in records_of(log):
        records_end = record.stop
        if record.kind in _ENDS_BATCH:
            batches_end = records_end
    tear = _next_head(records_end)
    if batches_end == records_end and not log[tear:].strip(b"\0"):
        return None
    if not _lacks_a_part(log, tear) or _begins_batch_behind(log, tear):
        return None
    return batches_end


def cut_tear(log: Path) -> int:
    """Cut off what there is of the batch at which the log was torn.

    Return how many bytes that is, 0 where there is no tear. Raises `OSError`.
    """
    data = log.read_bytes()
    batches_end = tear_of(data)
    if batches_end is None:
        return 0
    with log.open("r+b") as out:
        out.truncate(batches_end)
        os.fsync(out.fileno())
    return len(data.rstrip(b"\0")) - batches_end


def _block_end(at: int) -> int:
    return at - at % BLOCK_BYTES + BLOCK_BYTES


def _next_head(at: int) -> int:
    """Return where the next head can be from `at` on: not in a trailer."""
    return _block_end(at) if _block_end(at) - at < HEAD_BYTES else at


def _record_at(log: bytes, at: int) -> Record | None:
    if at + HEAD_BYTES > len(log):
        return None
    checksum, length, kind = _HEAD.unpack_from(log, at)
    stop = at + HEAD_BYTES + length
    if not _FULL <= kind <= _LAST or stop > min(_block_end(at), len(log)):
        return None
    if checksum != _masked(crc32c(log[at + HEAD_BYTES - 1 : stop])):
        return None
    return Record(at, stop, kind)


def _masked(crc: int) -> int:
    """Return a checksum as LevelDB keeps it: changed, as it may stand in what is checked."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _lacks_a_part(log: bytes, at: int) -> bool:
    """Whether a sector of the record at `at`, or all from a byte of it on, is zeros, as before."""
    head = log[at : at + HEAD_BYTES]
    if not any(head):
        return True
    _, length, _ = _HEAD.unpack(head.ljust(HEAD_BYTES, b"\0"))
    stop = min(at + HEAD_BYTES + length, _block_end(at))
    record = log[at:stop].ljust(stop - at, b"\0")
    cuts = [0, *range(-at % SECTOR_BYTES or SECTOR_BYTES, stop - at, SECTOR_BYTES), stop - at]
    if any(not any(record[a:b]) for a, b in pairwise(cuts)):
        return True
    return not record[-1] and not log[stop:].strip(b"\0")


def _begins_batch_behind(log: bytes, at: int) -> bool:
    """Whether another batch begins behind the record at `at`, whose length need not be right.

    It may stand anywhere in the same block; in each later one records stand from its start on.
    """
    block_end = min(_block_end(at), len(log))
    if any(_is_start(_record_at(log, start)) for start in range(at + 1, block_end)):
        return True
    return any(
        _is_start(record)
        for start in range(block_end, len(log), BLOCK_BYTES)
        for record in records_of(log[start : start + BLOCK_BYTES])
    )


def _is_start(record: Record | None) -> bool:
    return record is not None and record.kind in _BEGINS_BATCH
