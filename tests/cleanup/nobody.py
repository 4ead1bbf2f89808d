"""Services for tests of the tables alone: no transactions, and topics that nobody uses."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tables.metadata_table import StoreMetadataTable
from tables.store import Row, Store
from tms.core.values.topic import TopicId, TopicMetadata
from tms.transactions.pruning import InvalidList

T = TypeVar("T")


class NoServices:
    """Forgets topics in `store`, if there is one."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store

    def invalid_list(self) -> InvalidList | None:
        return None

    def invert_published(self, write_pointers: Collection[int]) -> int:
        raise AssertionError(write_pointers)

    def forget_published(self, write_pointers: Collection[int]) -> None:
        raise AssertionError(write_pointers)

    def invert(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        raise AssertionError(topic_id, generation, write_pointer, rows)

    def truncate(self, write_pointers: Collection[int]) -> int:
        raise AssertionError(write_pointers)

    def keep_keys_from(self, floor_ms: int) -> None:
        pass

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        if self._store is None:
            return ()
        batch = self._store.batch()
        forgotten = StoreMetadataTable(self._store).forget(batch, topics)
        self._store.write(batch)
        return forgotten

    def unchanging(self, read: Callable[[], T]) -> T:
        return read()
