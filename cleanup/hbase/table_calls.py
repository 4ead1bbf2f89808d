"""The calls of cleanup to services if this process has none: it only uses the tables.

Another process may have the store, so this does only what is safe beside it. A transaction that its
log has as invalid has written all that it ever will: messages go before edits in each batch, and a
batch after a failed one waits until that is decided. An entry is inverted by putting it again, as
a rollback does. The caches of servers are not told, nor is their invalid list touched: each server
takes pointers off the list once it has told its own cache (`cleanup.hbase.cleaner`).
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tables.keys import inverted
from tables.store import MESSAGE, Row, Store
from tms.core.values.topic import TopicId, TopicMetadata
from tms.transactions.pruning import InvalidList

T = TypeVar("T")


class TableServices:
    """Fulfils `cleanup.loop_calls.ServiceCalls`."""

    def __init__(self, store: Store, invalid_list: Callable[[], InvalidList | None]) -> None:
        """Invert in `store`; `invalid_list` reads the list from its log."""
        self._store = store
        self._invalid_list = invalid_list

    def invalid_list(self) -> InvalidList | None:
        """Return the invalid list as the log has it."""
        return self._invalid_list()

    def invert_published(self, write_pointers: Collection[int]) -> int:  # noqa: ARG002
        """Return 0: this process has published nothing."""
        return 0

    def forget_published(self, write_pointers: Collection[int]) -> None:
        """Do nothing: this process knows nothing of it."""

    def invert(
        self,
        topic_id: TopicId,  # noqa: ARG002  the rows have all that in them
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
        """Return 0: the list is left as it is."""
        return 0

    def keep_keys_from(self, floor_ms: int) -> None:
        """Do nothing: no row is forgotten here."""

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:  # noqa: ARG002
        """Return none: no row of the Metadata table is deleted here."""
        return ()

    def unchanging(self, read: Callable[[], T]) -> T:
        """Return what `read` returns: others may change topics meanwhile."""
        return read()
