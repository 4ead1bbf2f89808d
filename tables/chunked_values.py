"""Values that are too large for one row: chunks of 1 MiB, and an end.

    chunk key := start, chunk uint32        from 0 on
    end key   := start, 0xffffffff
    end       := length uint64, crc32 uint32        of the whole value

Big-endian. DO NOT CHANGE: on disk. The end is put last and deleted first, so a value without an end
was not put whole and does not count.
"""

import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

from tables.store import Row

_CHUNK = struct.Struct(">I")
NUMBER_BYTES = _CHUNK.size
_END_CHUNK = b"\xff" * _CHUNK.size
_END = struct.Struct(">QI")
_CHUNK_BYTES = 1024 * 1024


def rows_of(start: bytes, value: bytes) -> Iterator[Row]:
    """Yield the rows of a value in the order in which to put them."""
    for number, at in enumerate(range(0, len(value), _CHUNK_BYTES)):
        yield chunk_key(start, number), value[at : at + _CHUNK_BYTES]
    yield end_key(start), _END.pack(len(value), crc32(value))


def chunks_of(value: bytes) -> int:
    """Return how many chunks a value has."""
    return -(-len(value) // _CHUNK_BYTES)


def chunk_key(start: bytes, number: int) -> bytes:
    """Return the key of a chunk of a value."""
    return start + _CHUNK.pack(number)


def number_of(key: bytes) -> int:
    """Return the number of the chunk that `key` has; for an end, a number above all chunks."""
    return int(_CHUNK.unpack_from(key, len(key) - _CHUNK.size)[0])


def end_key(start: bytes) -> bytes:
    """Return the key of the end of a value."""
    return start + _END_CHUNK


def start_of(key: bytes) -> bytes:
    """Return the start that all keys of a value have, from one of its keys."""
    return key[: -_CHUNK.size]


def value_of(start: bytes, rows: Sequence[Row]) -> bytes | None:
    """Return the value of all rows under `start`, which ascend; None if it is damaged."""
    *chunks, (key, end) = rows or [(b"", b"")]
    if key != end_key(start) or len(end) != _END.size:
        return None
    length, checksum = _END.unpack(end)
    # Chunks beyond the length remain from a longer value that was not put whole.
    value = b"".join([chunk for _, chunk in chunks])[:length]
    return value if len(value) == length and crc32(value) == checksum else None
