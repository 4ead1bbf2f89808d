"""The rows of a metadata store that shares a data folder (`tms.core.values.metadata_rows`)."""

from collections.abc import Iterable, Sequence

from tables.store import COORDINATION, Row, Store

_END = b"\xff" * 8
"""Above every key: they are paths in UTF-8, which has no such byte."""


class CoordinationRows:
    """The coordination table of a store, which stays open after this is no longer used."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read_all(self) -> Iterable[Row]:
        """Return all rows, keys ascending. Raises `StoreUnavailable`."""
        with self._store.scan(COORDINATION, b"", _END) as rows:
            return list(rows)

    def write(self, rows: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Put rows, or delete those with value None, all or none. Raises `StoreUnavailable`."""
        batch = self._store.batch()
        for key, value in rows:
            if value is None:
                batch.delete(COORDINATION, key)
            else:
                batch.put(COORDINATION, key, value)
        self._store.write(batch)
