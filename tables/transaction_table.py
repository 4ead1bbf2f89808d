"""The Transaction table: the log of the state of transactions, snapshots of it, and time marks.

    log row key        := "e", number int64
    snapshot keys      := "s", number int64, then as `tables.chunked_values` says
    mark row key       := "t", token int64                       `tms.messaging.mark` has the value

Big-endian. DO NOT CHANGE: on disk. A snapshot that was not written whole does not count. Values are
opaque here: `tms.transactions` encodes them.
"""

import struct
from collections.abc import Iterator
from itertools import islice

from tables.chunked_values import end_key, rows_of, value_of
from tables.keys import after_prefix
from tables.store import TRANSACTION, Store
from tms.core.errors import StoreCorrupt
from tms.core.limits import INT64_MAX
from tms.core.values.batch import Batch

_LOG = b"e"
_SNAPSHOT = b"s"
_MARK = b"t"
_NUMBER = struct.Struct(">q")

_ROWS_AT_ONCE = 100


def _log_key(sequence: int) -> bytes:
    return _LOG + _NUMBER.pack(sequence)


def _snapshot_start(sequence: int) -> bytes:
    return _SNAPSHOT + _NUMBER.pack(sequence)


_LOG_STOP = _log_key(INT64_MAX)


class StoreTransactionTable:
    """The log of the state of transactions, and snapshots of that state.

    The rows of the log are numbered (`tms.transactions.segments`). Snapshot n contains the effect
    of all rows below n.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, batch: Batch, sequence: int, row: bytes) -> None:
        """Add to `batch` the row `sequence` of the log."""
        batch.put(TRANSACTION, _log_key(sequence), row)

    def put_row(self, sequence: int, row: bytes) -> None:
        """Put the row `sequence` of the log; durable when it returns."""
        self._put(_log_key(sequence), row)

    def rows(self, from_sequence: int) -> Iterator[tuple[int, bytes]]:
        """Yield the rows from `from_sequence` on with their numbers, ascending, page by page."""
        start = _log_key(from_sequence)
        while True:
            with self._store.scan(TRANSACTION, start, _LOG_STOP, limit=_ROWS_AT_ONCE) as scanned:
                rows = list(scanned)
            for key, row in rows:
                yield _number_of(key), row
            if len(rows) < _ROWS_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    def put_snapshot(self, sequence: int, data: bytes) -> None:
        """Put the snapshot `sequence`; durable when it returns. An existing one is kept."""
        start = _snapshot_start(sequence)
        if self._store.get(TRANSACTION, end_key(start)) is not None:
            return
        for key, value in rows_of(start, data):
            self._put(key, value)

    def _put(self, key: bytes, value: bytes) -> None:
        batch = self._store.batch()
        batch.put(TRANSACTION, key, value)
        self._store.write(batch)

    def snapshots(self) -> list[int]:
        """Return the numbers of whole snapshots, ascending."""
        return [
            sequence
            for sequence in self._started_snapshots(INT64_MAX)
            if self._store.get(TRANSACTION, end_key(_snapshot_start(sequence))) is not None
        ]

    def _started_snapshots(self, below: int) -> Iterator[int]:
        """Yield the numbers of snapshots below a number, including incomplete ones."""
        start, stop = _snapshot_start(0), _snapshot_start(below)
        while True:
            with self._store.scan(TRANSACTION, start, stop, limit=1) as scanned:
                key = next((key for key, _ in scanned), None)
            if key is None:
                return
            sequence = _number_of(key)
            yield sequence
            start = _snapshot_start(sequence + 1)

    def snapshot(self, sequence: int) -> bytes:
        """Return a snapshot that `snapshots` named. Raises `StoreCorrupt`."""
        start = _snapshot_start(sequence)
        with self._store.scan(TRANSACTION, start, _snapshot_start(sequence + 1)) as scanned:
            data = value_of(start, list(scanned))
        if data is None:
            raise StoreCorrupt(table=TRANSACTION, snapshot=sequence)
        return data

    def marks(self) -> list[tuple[int, bytes]]:
        """Return the time marks with the tokens of the leaders that put them, ascending."""
        with self._store.scan(TRANSACTION, _MARK, after_prefix(_MARK)) as scanned:
            return [(_number_of(key), row) for key, row in scanned]

    @staticmethod
    def put_mark(batch: Batch, token: int, row: bytes) -> None:
        """Add to `batch` the time mark of the leader with that token."""
        batch.put(TRANSACTION, _MARK + _NUMBER.pack(token), row)

    def drop_before(self, sequence: int, limit: int) -> int:
        """Delete at most `limit` rows of the log, and of snapshots, below `sequence`, durably.

        Return how many that was: fewer than `limit` if none remain.
        """
        batch = self._store.batch()
        count = 0
        for key in islice(self._keys_before(sequence, limit), limit):
            batch.delete(TRANSACTION, key)
            count += 1
        if count:
            self._store.write(batch)
        return count

    def _keys_before(self, sequence: int, limit: int) -> Iterator[bytes]:
        """Yield the keys to delete; a snapshot's end comes before its other keys."""
        for number in self._started_snapshots(sequence):
            start = _snapshot_start(number)
            end = end_key(start)
            if self._store.get(TRANSACTION, end) is not None:
                yield end
            with self._store.scan(TRANSACTION, start, end, limit=limit) as scanned:
                keys = [key for key, _ in scanned]
            yield from keys
        with self._store.scan(TRANSACTION, _log_key(0), _log_key(sequence), limit=limit) as scanned:
            keys = [key for key, _ in scanned]
        yield from keys


def _number_of(key: bytes) -> int:
    try:
        return int(_NUMBER.unpack_from(key, 1)[0])
    except struct.error:
        raise StoreCorrupt(table=TRANSACTION, key=key.hex()) from None
