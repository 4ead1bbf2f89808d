"""Cleanup's calls to services in a process without services: uses only the tables.

Another process may have the store open, so this does only what is safe then. A transaction that is
invalid in the log writes nothing more: messages precede edits in each batch, and a batch after a
failed one waits until that is decided. An entry is inverted by putting it again, as in a rollback.
The caches and invalid lists of servers do not change: each server takes pointers off its list once
it has updated its own cache (`cleanup.hbase.cleaner`).
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tables.keys import inverted
from tables.store import MESSAGE, Row, Store
from tms.core.values.topic import TopicId, TopicMetadata
from tms.transactions.pruning import InvalidList

T = TypeVar("T")


class TableServices:
    """Implements `cleanup.loop_calls.ServiceCalls`."""

    def __init__(self, store: Store, invalid_list: Callable[[], InvalidList | None]) -> None:
        """Invert in `store`; `invalid_list` reads the list from its log."""
        self._store = store
        self._invalid_list = invalid_list

    def invalid_list(self) -> InvalidList | None:
        """Return the invalid list from the log."""
        return self._invalid_list()

    def invert_published(self, write_pointers: Collection[int]) -> int:  # noqa: ARG002
        """Return 0, because this process has published nothing."""
        return 0

    def forget_published(self, write_pointers: Collection[int]) -> None:
        """Do nothing: this process has published nothing."""

    def invert(
        self,
        topic_id: TopicId,  # noqa: ARG002  the rows contain all that
        generation: int,  # noqa: ARG002
        write_pointer: int,  # noqa: ARG002
        rows: Sequence[Row],
    ) -> int:
        """Invert Message rows."""
        batch = self._store.batch()
        batch.put_rows(MESSAGE, [(key, inverted(value)) for key, value in rows])
        self._store.write(batch)
        return len(rows)

    def truncate(self, write_pointers: Collection[int]) -> int:  # noqa: ARG002  a server does
        """Return 0, because the list is not changed here."""
        return 0

    def keep_keys_from(self, floor_ms: int) -> None:
        """Do nothing: no row is deleted here."""

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:  # noqa: ARG002
        """Return nothing, because no row of the Metadata table is deleted here."""
        return ()

    def unchanging(self, read: Callable[[], T]) -> T:
        """Return the result of `read`; others may change topics in the meantime."""
        return read()
