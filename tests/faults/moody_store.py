"""A store in memory whose writes fail on request, in the ways that `tables.store` allows.

A failed write may have been done or not. Until `settle`, every write is refused and readers do not
see it; from then on they do, if it was done.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from tables.memory import MemoryStore
from tables.store import Row
from tms.core.errors import OutcomeUnknown, StoreUnavailable
from tms.core.values.batch import Batch


class MoodyStore:
    """A `MemoryStore` with moods. It can be used again after `close`."""

    atomic = True
    is_embedded = True
    is_raised = True
    reads_at_once = 1
    exchanges = None

    def __init__(self) -> None:
        self._inner = MemoryStore()
        self._next_is_done: bool | None = None
        self._late: Batch | None = None
        self._failed = False

    def fail_next(self, *, is_done: bool) -> None:
        """Make the next write fail; `is_done` says whether it is carried out all the same."""
        self._next_is_done = is_done

    def settle(self) -> None:
        """Take writes again."""
        late, self._late, self._failed = self._late, None, False
        if late is not None:
            self._inner.write(late)

    @property
    def has_failed(self) -> bool:
        return self._failed

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._inner.get(table, key)

    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AbstractContextManager[Iterator[Row]]:
        return self._inner.scan(table, start, stop, reverse=reverse, limit=limit)

    def batch(self, *, durable: bool = True) -> Batch:
        return self._inner.batch(durable=durable)

    def compact(self, table: str, start: bytes, stop: bytes) -> None:
        self._inner.compact(table, start, stop)

    def raise_format(self) -> None:
        self._inner.raise_format()

    def features(self) -> frozenset[str]:
        return self._inner.features()

    def add_feature(self, feature: str) -> None:
        self.check_writable()
        self._inner.add_feature(feature)

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:
        return self._inner.size_bytes(table, start, stop)

    def check_writable(self) -> None:
        if self._failed:
            raise StoreUnavailable(reason="a bad mood")

    def is_behind(self) -> bool:
        return self._inner.is_behind()

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        pass

    def write(self, batch: Batch) -> None:
        self.check_writable()
        if self._next_is_done is None:
            self._inner.write(batch)
            return
        self._late = batch if self._next_is_done else None
        self._next_is_done, self._failed = None, True
        raise OutcomeUnknown(reason="a bad mood")

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        self.check_writable()
        if self.get(table, key) != expected:
            return False
        batch = self.batch()
        if value is None:
            batch.delete(table, key)
        else:
            batch.put(table, key, value)
        self.write(batch)
        return True

    def close(self) -> None:
        pass
