"""Two servers with the same requests and clock: one is cleaned up, the other never is.

The test itself runs cleanup, step by step in the thread of the event loop, and timeouts.
"""

import asyncio
import tempfile
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from cleanup.cleaner import Cleaner
from cleanup.ranges import Step
from cleanup.topic_rules import TopicRules
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.store import Row, Store
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.core.services.messaging import RollbackRange
from tms.core.values.cleanup import WrittenSoFar
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId, TopicMetadata
from tms.server.node import OpenServices, services_on
from tms.transactions.pruning import InvalidList
from tms.transactions.service import TransactionService

T = TypeVar("T")
NOW_MS = 1_800_000_000_000
LIMITS = Limits(
    transaction_lifetime_s_max=100,
    transaction_timeout_s_max=50,
    transaction_long_timeout_s=50,
    cleanup_grace_s=50,
    cleanup_slice_rows=3,
    clock_hold_s=1_000_000,  # other tests check how clock steps are believed
)


class ReopenedStore(MemoryStore):
    """A store that can be opened again after it was closed, like a folder."""

    def close(self) -> None:
        pass


class Twin:
    """One of the two servers; its event loop runs only during requests."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: ManualClock, limits: Limits = LIMITS
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.limits = limits
        self.is_on_demand = False
        """Whether passes are run because somebody waits for them."""
        self.store = self.open_store()
        self.open()

    def open_store(self) -> Store:
        return ReopenedStore()

    def await_(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def open(self) -> None:
        self.services = self._opened()
        clock = self.services.engine.clock
        rules = TopicRules(self.store, self, self.limits, clock)
        self.cleaner = Cleaner(self.store, self, self.limits, clock, rules=rules)
        self.passing: Generator[Step, None, None] | None = None

    def _opened(self) -> OpenServices:
        tables = StoreTables(self.store)
        before = asyncio.all_tasks(self.loop)
        opened = self.await_(services_on(tables, self.limits, self.clock, CollectorRegistry()))
        begun = asyncio.all_tasks(self.loop) - before
        [self._mark_timer] = [task for task in begun if task.get_name() == "mark-timer"]
        return opened

    @property
    def transactions(self) -> TransactionService:
        found = self.services.transactions
        assert isinstance(found, TransactionService)
        return found

    def close(self) -> None:
        self.leave_pass()
        self.await_(self.services.close())

    def crash(self) -> None:
        """Write nothing any more."""
        self.leave_pass()

        async def end() -> None:
            self.transactions._timer.cancel()
            self._mark_timer.cancel()
            await self.transactions._journal.close()
            await self.services.engine.threads.close()

        self.await_(end())
        self.store.close()

    def reopen(self, *, crashes: bool) -> None:
        if crashes:
            self.crash()
        else:
            self.close()
        if not isinstance(self.store, ReopenedStore):
            self.store = self.open_store()
        self.open()

    def clean(self, steps: int = 1_000_000) -> int:
        """Do a pass, or some steps of it; return how many rows it dropped and inverted."""
        taken = zip(range(steps), self.cleaner.steps(is_on_demand=True), strict=False)
        return sum(step.dropped + step.inverted for _, step in taken)

    def go_on_cleaning(self, steps: int) -> None:
        """Do this many steps of the current pass, or of a new one."""
        self.passing = self.passing or self.passed()
        if sum(1 for _ in islice(self.passing, steps)) < steps:
            self.passing = None

    def passed(self) -> Generator[Step, None, None]:
        """Do a pass, yielding each step when it is done."""
        yield from self.cleaner.steps(is_on_demand=self.is_on_demand)

    def put_mark(self) -> None:
        """Put the mark now instead of some time within a minute."""
        mark = self.services.engine.mark
        assert mark is not None
        batch = self.store.batch()
        mark.put(batch)
        self.store.write(batch)

    def leave_pass(self) -> None:
        """Abandon the pass in progress."""
        if self.passing is not None:
            self.passing.close()
            self.passing = None

    async def polled(
        self, topic_id: TopicId, transaction: int | None = None, *, committed: bool = False
    ) -> list[tuple[bytes, bytes]]:
        view = transaction or isolation_of(committed=committed)
        blocks = self.services.messaging.poll(topic_id, Reading(FIRST_ID, 10_000, view))
        return [(m.id, m.payload) async for block in blocks for m in block]

    async def rolled_back(self, topic_id: TopicId, published: RollbackRange) -> None:
        await self.services.messaging.rollback(topic_id, published)

    # Methods that cleanup calls (`cleanup.loop_calls.ServiceCalls`, `TopicCalls`).

    def written(self, topic: TopicMetadata) -> WrittenSoFar | None:
        return self.await_(self.services.messaging.cleaned.written(topic))

    def forget_cached(self, topic: TopicMetadata, key: bytes) -> bool:
        return self.await_(self.services.messaging.cleaned.forget_cached(topic, key))

    def trim(self, topic: TopicMetadata, before_ms: int) -> None:
        self.await_(self.services.messaging.cleaned.trim(topic, before_ms))

    def invalid_list(self) -> InvalidList | None:
        return self.await_(self.transactions.invalid_list())

    def invert_published(self, write_pointers: Collection[int]) -> int:
        return self.await_(self.services.messaging.invalid_entries.invert_published(write_pointers))

    def forget_published(self, write_pointers: Collection[int]) -> None:
        self.await_(self.services.messaging.forget_published(write_pointers))

    def invert(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        messaging = self.services.messaging
        return self.await_(
            messaging.invalid_entries.invert_rows(topic_id, generation, write_pointer, rows)
        )

    def truncate(self, write_pointers: Collection[int]) -> int:
        return self.await_(self.transactions.truncate_invalid_ids(write_pointers))

    def keep_keys_from(self, floor_ms: int) -> None:
        self.await_(self.services.messaging.cleaned.keep_keys_from(floor_ms))

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        return self.await_(self.services.messaging.forget_topics(topics))

    def unchanging(self, read: Callable[[], T]) -> T:
        return self.await_(self.services.messaging.unchanging(read))


class LevelDBTwin(Twin):
    def open_store(self) -> Store:
        if not hasattr(self, "folder"):
            self.folder = Path(tempfile.mkdtemp(prefix="tms-twin-"))
        return LevelDBStore(self.folder, sync=False, write_buffer_bytes=64 * 1024)
