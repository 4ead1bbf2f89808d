"""The Transaction table: the log of the state of transactions, snapshots of it, and marks of time.

    log row key       := "e", number int64
    snapshot row key  := "s", number int64, chunk uint32        chunks of 1 MiB, from 0 on
    snapshot end key  := "s", number int64, 0xffffffff
    snapshot end      := length uint64, crc32 uint32            of the whole snapshot
    mark row key      := "t", token int64                       `tms.messaging.mark` has the value

Big-endian. DO NOT CHANGE: on disk. The end of a snapshot is written last and deleted first, so that
one without an end is one that was not written whole, and is no snapshot. Values are opaque here:
`tms.transactions` encodes them.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from zlib import crc32

from tables.keys import after_prefix
from tables.store import TRANSACTION, Store
from tms.core.errors import StoreCorrupt
from tms.core.limits import INT64_MAX
from tms.core.tables import Batch

_LOG = b"e"
_SNAPSHOT = b"s"
_MARK = b"t"
_NUMBER = struct.Struct(">q")
_SNAPSHOT_KEY = struct.Struct(">cqI")
_END_CHUNK = 2**32 - 1
_END = struct.Struct(">QI")

_CHUNK_BYTES = 1024 * 1024
_ROWS_AT_ONCE = 100


def _log_key(sequence: int) -> bytes:
    return _LOG + _NUMBER.pack(sequence)


def _snapshot_key(sequence: int, chunk: int) -> bytes:
    return _SNAPSHOT_KEY.pack(_SNAPSHOT, sequence, chunk)


_LOG_STOP = _log_key(INT64_MAX)
_SNAPSHOT_STOP = _snapshot_key(INT64_MAX, 0)


class StoreTransactionTable:
    """The Transaction table on any Store. Fulfils `tms.core.tables.TransactionTable`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, batch: Batch, sequence: int, row: bytes) -> None:
        """Add to `batch` the row `sequence` of the log."""
        batch.put(TRANSACTION, _log_key(sequence), row)

    def put_row(self, sequence: int, row: bytes) -> None:
        """Put the row `sequence` of the log; durable when it returns."""
        self._put(_log_key(sequence), row)

    def rows(self, from_sequence: int) -> Iterator[tuple[int, bytes]]:
        """Give the rows from `from_sequence` on with their numbers, ascending, as far as read."""
        start = _log_key(from_sequence)
        while True:
            with self._store.scan(TRANSACTION, start, _LOG_STOP, limit=_ROWS_AT_ONCE) as found:
                rows = list(found)
            for key, row in rows:
                yield _number_of(key), row
            if len(rows) < _ROWS_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    def put_snapshot(self, sequence: int, data: bytes) -> None:
        """Put the snapshot `sequence`; durable when it returns. One that is there stays."""
        end_key = _snapshot_key(sequence, _END_CHUNK)
        if self._store.get(TRANSACTION, end_key) is not None:
            return
        chunks = [data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            self._put(_snapshot_key(sequence, number), chunk)
        self._put(end_key, _END.pack(len(data), crc32(data)))

    def _put(self, key: bytes, value: bytes) -> None:
        batch = self._store.batch()
        batch.put(TRANSACTION, key, value)
        self._store.write(batch)

    def snapshots(self) -> list[int]:
        """Return the numbers of the snapshots that were put whole, ascending."""
        return [
            sequence
            for sequence in self._started_snapshots(INT64_MAX)
            if self._store.get(TRANSACTION, _snapshot_key(sequence, _END_CHUNK)) is not None
        ]

    def _started_snapshots(self, below: int) -> Iterator[int]:
        """Give the numbers of snapshots below a number, of those not put whole too."""
        start, stop = _snapshot_key(0, 0), _snapshot_key(below, 0)
        while True:
            with self._store.scan(TRANSACTION, start, stop, limit=1) as found:
                key = next((key for key, _ in found), None)
            if key is None:
                return
            sequence = _number_of(key)
            yield sequence
            start = _snapshot_key(sequence + 1, 0)

    def snapshot(self, sequence: int) -> bytes:
        """Return a snapshot that `snapshots` named. Raises `StoreCorrupt`."""
        start, stop = _snapshot_key(sequence, 0), _snapshot_key(sequence + 1, 0)
        with self._store.scan(TRANSACTION, start, stop) as found:
            *chunks, (end_key, end) = list(found) or [(b"", b"")]
        is_whole = end_key == _snapshot_key(sequence, _END_CHUNK) and len(end) == _END.size
        length, checksum = _END.unpack(end) if is_whole else (0, 0)
        # Chunks behind the length are left over from a longer one that was not put whole.
        data = b"".join([chunk for _, chunk in chunks])[:length]
        if not is_whole or len(data) != length or crc32(data) != checksum:
            raise StoreCorrupt(table=TRANSACTION, snapshot=sequence)
        return data

    def marks(self) -> list[tuple[int, bytes]]:
        """Return the marks of the time with the tokens of those who put them, ascending."""
        with self._store.scan(TRANSACTION, _MARK, after_prefix(_MARK)) as found:
            return [(_number_of(key), row) for key, row in found]

    @staticmethod
    def put_mark(batch: Batch, token: int, row: bytes) -> None:
        """Add to `batch` the mark of the leader with that token."""
        batch.put(TRANSACTION, _MARK + _NUMBER.pack(token), row)

    def drop_before(self, sequence: int, limit: int) -> int:
        """Delete at most `limit` rows below `sequence`, durably; return how many there were."""
        batch = self._store.batch()
        count = 0
        for key in islice(self._keys_before(sequence, limit), limit):
            batch.delete(TRANSACTION, key)
            count += 1
        if count:
            self._store.write(batch)
        return count

    def _keys_before(self, sequence: int, limit: int) -> Iterator[bytes]:
        """Give the keys to delete, the end of a snapshot before the rest of it."""
        for number in self._started_snapshots(sequence):
            end_key = _snapshot_key(number, _END_CHUNK)
            if self._store.get(TRANSACTION, end_key) is not None:
                yield end_key
            start = _snapshot_key(number, 0)
            with self._store.scan(TRANSACTION, start, end_key, limit=limit) as found:
                keys = [key for key, _ in found]
            yield from keys
        with self._store.scan(TRANSACTION, _log_key(0), _log_key(sequence), limit=limit) as found:
            keys = [key for key, _ in found]
        yield from keys


def _number_of(key: bytes) -> int:
    try:
        return int(_NUMBER.unpack_from(key, 1)[0])
    except struct.error:
        raise StoreCorrupt(table=TRANSACTION, key=key.hex()) from None
