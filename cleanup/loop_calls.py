"""Cleanup's calls to the services, whose state belongs to the event loop.

The calls of `ServiceCalls` block. Cleanup makes them from its own thread, and `LoopServices` hands
them over to the loop. Work in the tables alone needs none of them.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from tables.store import Row
from tms.core.errors import Stopping
from tms.core.values.cleanup import WrittenSoFar
from tms.core.values.topic import TopicId, TopicMetadata
from tms.messaging.service import Service
from tms.transactions.pruning import InvalidList
from tms.transactions.service import TransactionService

T = TypeVar("T")


class ServiceCalls(Protocol):
    """The calls of cleanup, from its own thread. All may raise `Unavailable` errors."""

    def invalid_list(self) -> InvalidList | None:
        """Return the invalid list, None if transactions are managed elsewhere."""
        ...

    def invert_published(self, write_pointers: Collection[int]) -> int:
        """Invert entries that this process published under invalid pointers; return how many."""
        ...

    def forget_published(self, write_pointers: Collection[int]) -> None:
        """Forget what was published under pointers: all of it is inverted, and no more follows."""
        ...

    def invert(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        """Invert Message rows, as stored under a pointer; return how many; 0 if it is gone."""
        ...

    def truncate(self, write_pointers: Collection[int]) -> int:
        """Take pointers off the invalid list; return how many were on it."""
        ...

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        """Delete the metadata rows of deleted topics that are unchanged; return their ids."""
        ...

    def keep_keys_from(self, floor_ms: int) -> None:
        """Let no new key have a time before `floor_ms`."""
        ...

    def unchanging(self, read: Callable[[], T]) -> T:
        """Return the result of `read` while no topic is being changed here."""
        ...


class TopicCalls(Protocol):
    """Further calls of compaction and retention. All raise as `ServiceCalls` do."""

    def invalid_list(self) -> InvalidList | None:
        """Return the invalid list, None if transactions are managed elsewhere."""
        ...

    def written(self, topic: TopicMetadata) -> WrittenSoFar | None:
        """Return what has been written so far, None if the topic's generation is gone."""
        ...

    def forget_cached(self, topic: TopicMetadata, key: bytes) -> bool:
        """Read entries below `key` from the table from now on; False if it is not compact."""
        ...

    def trim(self, topic: TopicMetadata, before_ms: int) -> None:
        """Let messages written before a time expire, if the topic's row is unchanged."""
        ...


class LoopServices:
    """The services of one event loop, for another thread.

    Implements `ServiceCalls` and `TopicCalls`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        messaging: Service,
        transactions: TransactionService | None,
    ) -> None:
        """Call within `loop`; `transactions` is None if they are managed elsewhere."""
        self._loop = loop
        self._messaging = messaging
        self._transactions = transactions

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            work.close()
            raise Stopping from None

    def invalid_list(self) -> InvalidList | None:
        """Return the invalid list."""
        transactions = self._transactions
        return None if transactions is None else self._call(transactions.invalid_list())

    def invert_published(self, write_pointers: Collection[int]) -> int:
        """Invert what this process has published under invalid pointers."""
        return self._call(self._messaging.invalid_entries.invert_published(write_pointers))

    def forget_published(self, write_pointers: Collection[int]) -> None:
        """Forget what was published under pointers."""
        self._call(self._messaging.forget_published(write_pointers))

    def invert(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        """Invert Message rows, as stored under a pointer."""
        work = self._messaging.invalid_entries.invert_rows(
            topic_id, generation, write_pointer, rows
        )
        return self._call(work)

    def truncate(self, write_pointers: Collection[int]) -> int:
        """Take pointers off the invalid list."""
        assert self._transactions is not None
        return self._call(self._transactions.truncate_invalid_ids(write_pointers))

    def keep_keys_from(self, floor_ms: int) -> None:
        """Let no new key have a time before `floor_ms`."""
        self._call(self._messaging.cleaned.keep_keys_from(floor_ms))

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        """Delete the metadata rows of deleted topics that are unchanged; return their ids."""
        return self._call(self._messaging.forget_topics(topics))

    def unchanging(self, read: Callable[[], T]) -> T:
        """Return the result of `read` while no topic is being changed."""
        return self._call(self._messaging.unchanging(read))

    def written(self, topic: TopicMetadata) -> WrittenSoFar | None:
        """Return what has been written so far."""
        return self._call(self._messaging.cleaned.written(topic))

    def forget_cached(self, topic: TopicMetadata, key: bytes) -> bool:
        """Read entries below `key` from the table from now on."""
        return self._call(self._messaging.cleaned.forget_cached(topic, key))

    def trim(self, topic: TopicMetadata, before_ms: int) -> None:
        """Let messages written before a time expire."""
        self._call(self._messaging.cleaned.trim(topic, before_ms))
