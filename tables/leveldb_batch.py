"""A batch of a store on LevelDB, bound to the handle that was open when it was made."""

from collections.abc import Iterable
from typing import Any

from tables.leveldb_layout import Prefixes
from tables.store import Row
from tms.core.errors import StoreUnavailable


class LevelDBBatch:
    """A plyvel batch for all tables, bound to one handle.

    plyvel raises RuntimeError if that was closed, or replaced, in the meantime.
    """

    def __init__(self, handle: Any, prefixes: Prefixes, *, sync: bool) -> None:
        self.handle = handle
        self._prefixes = prefixes
        try:
            self.writes = handle.write_batch(sync=sync)
        except RuntimeError as error:
            raise StoreUnavailable(reason=str(error)) from error

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Add a put."""
        self.put_rows(table, ((key, value),))

    def put_rows(
        self, table: str, rows: Iterable[Row], prefix: bytes = b"", start: bytes = b""
    ) -> None:
        """Add a put for each key, after `prefix`, and value, after `start`."""
        prefix, put = self._prefixes[table] + prefix, self.writes.put
        try:
            for key, value in rows:
                put(prefix + key, start + value)
        except RuntimeError as error:
            raise StoreUnavailable(reason=str(error)) from error

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete."""
        self.delete_rows(table, (key,))

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key."""
        prefix, delete = self._prefixes[table], self.writes.delete
        try:
            for key in keys:
                delete(prefix + key)
        except RuntimeError as error:
            raise StoreUnavailable(reason=str(error)) from error

    def require_atomic(self) -> None:
        """Do nothing: every batch is atomic."""
