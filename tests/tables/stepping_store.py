"""A store in memory that counts the deleted rows that a LevelDB search would step over."""

from collections.abc import Iterator
from contextlib import contextmanager

from sortedcontainers import SortedDict

from tables.memory import MemoryStore
from tables.store import Row


class SteppingStore(MemoryStore):
    """Deleted rows remain in the way until they are put again, as if nothing were ever merged.

    A search passes all deleted rows up to the next existing one, even beyond its end. A backward
    search starts with the first row at or after its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stepped = 0
        self._all: dict[str, SortedDict] = {table: SortedDict() for table in self._tables}
        """The value of each key, or None if it was deleted."""

    def _put(self, table: str, key: bytes, value: bytes | None) -> None:
        super()._put(table, key, value)
        if value is not None or key in self._all[table]:
            self._all[table][key] = value

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
        if start >= stop or limit == 0:
            yield iter(())
            return
        yield self._found(table, start, stop, limit, reverse=reverse)

    def _found(
        self, table: str, start: bytes, stop: bytes, limit: int | None, *, reverse: bool
    ) -> Iterator[Row]:
        rows = self._all[table]
        if reverse:
            next(self._there(table, list(rows.irange(stop))), None)
            keys = list(rows.irange(None, stop, inclusive=(True, False), reverse=True))
        else:
            keys = list(rows.irange(start))
        for count, (key, value) in enumerate(self._there(table, keys), 1):
            if not start <= key < stop:
                return
            yield key, value
            if count == limit:
                return

    def _there(self, table: str, keys: list[bytes]) -> Iterator[Row]:
        for key in keys:
            value = self._all[table][key]
            if value is None:
                self.stepped += 1
            else:
                yield key, value
