"""A table of a Store as a metadata store's rows, and rows that fail when told to."""

from collections.abc import Sequence

from tables.memory import MemoryStore
from tables.store import METADATA, Store
from tms.core.errors import StoreUnavailable

END = b"\xff" * 8
Rows = Sequence[tuple[bytes, bytes | None]]


class TableRows:
    """One table of a Store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read_all(self) -> list[tuple[bytes, bytes]]:
        with self._store.scan(METADATA, b"", END) as rows:
            return list(rows)

    def write(self, rows: Rows) -> None:
        batch = self._store.batch()
        for key, value in rows:
            if value is None:
                batch.delete(METADATA, key)
            else:
                batch.put(METADATA, key, value)
        self._store.write(batch)


class FailingRows(TableRows):
    """Rows in memory; the next write fails, done or not, where `fail_next` says so."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.fail_next: str | None = None

    def write(self, rows: Rows) -> None:
        how, self.fail_next = self.fail_next, None
        if how != "before":
            super().write(rows)
        if how is not None:
            raise StoreUnavailable(reason="a test")
