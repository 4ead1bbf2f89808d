"""A Store in this process's memory: nothing survives the process.

For tests, and for a server whose messages need not outlive it (`--store memory:`). Batches are
atomic. A scan copies its rows when it is opened, so use a limit or a narrow range.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock

from sortedcontainers import SortedDict

from tables.store import ALL_TABLES, COORDINATION, METADATA, Row
from tms.core.errors import StoreUnavailable
from tms.core.values.batch import Batch


class MemoryBatch:
    """A list of puts and deletes (value None)."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, bytes, bytes | None]] = []

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Add a put."""
        self.writes.append((table, key, value))

    def put_rows(
        self, table: str, rows: Iterable[Row], prefix: bytes = b"", start: bytes = b""
    ) -> None:
        """Add a put for each key, after `prefix`, and value, after `start`."""
        self.writes += [(table, prefix + key, start + value) for key, value in rows]

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete."""
        self.writes.append((table, key, None))

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key."""
        self.writes += [(table, key, None) for key in keys]

    def require_atomic(self) -> None:
        """Do nothing: every batch is atomic."""


class MemoryStore:
    """Sorted maps behind one lock."""

    atomic = True
    is_embedded = True
    is_raised = True
    reads_at_once = 1
    exchanges = 0

    def __init__(self) -> None:
        self._tables: dict[str, SortedDict] = {
            table: SortedDict() for table in (*ALL_TABLES, COORDINATION)
        }
        self._features: frozenset[str] = frozenset()
        self._lock = Lock()
        self._closed = False

    def _open_table(self, table: str) -> SortedDict:
        self.check_writable()
        return self._tables[table]

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        with self._lock:
            value: bytes | None = self._open_table(table).get(key)
            return value

    @contextmanager
    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them."""
        with self._lock:
            rows = self._open_table(table)
            if start >= stop:
                keys: Iterator[bytes] = iter(())
            else:
                keys = rows.irange(start, stop, inclusive=(True, False), reverse=reverse)
            matching = [(key, rows[key]) for key in islice(keys, limit)]
        yield iter(matching)

    def batch(self, *, durable: bool = True) -> MemoryBatch:  # noqa: ARG002  no batch is
        """Return an empty batch."""
        return MemoryBatch()

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` once closed."""
        if self._closed:
            raise StoreUnavailable(reason="the store is closed")

    def is_behind(self) -> bool:
        """Return False: there is nothing to merge."""
        return False

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Do nothing: no write takes effect late."""

    def write(self, batch: Batch) -> None:
        """Carry out a batch, all at once for every reader."""
        assert isinstance(batch, MemoryBatch)
        with self._lock:
            for table, key, value in batch.writes:
                self._put(table, key, value)

    def _put(self, table: str, key: bytes, value: bytes | None) -> None:
        rows = self._open_table(table)
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put or delete `value` if the key has `expected`, as `Store` says."""
        with self._lock:
            if self._open_table(table).get(key) != expected:
                return False
            self.exchanges += 1
            self._put(table, key, value)
            self.exchanges += 1
            return True

    def compact(self, table: str, start: bytes, stop: bytes) -> None:  # noqa: ARG002
        """Do nothing: deleted rows take no room."""
        self._open_table(table)

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:  # noqa: ARG002
        """Return 0, because nothing is on disk."""
        self._open_table(table)
        return 0

    def raise_format(self) -> None:
        """Do nothing: no format is recorded."""
        self._open_table(METADATA)

    def features(self) -> frozenset[str]:
        """Return the features that were used."""
        return self._features

    def add_feature(self, feature: str) -> None:
        """Record a feature."""
        self.check_writable()
        self._features |= {feature}

    def close(self) -> None:
        """Refuse every call; the rows live as long as the object."""
        self._closed = True
