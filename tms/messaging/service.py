"""The messaging service: topics and the five verbs (`tms.core.messaging.MessagingService`).

It checks what it is asked, finds the topic's state, and leaves the work to the writer and the
reader. It belongs to the event loop it was opened in; nothing it does blocks that loop.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from time import monotonic

from tms.core.errors import (
    InvalidRequest,
    RollbackRefused,
    Stopping,
    TmsError,
    TransactionDuplicate,
    TransactionExpired,
    TransactionsElsewhere,
)
from tms.core.limits import UINT16_COUNT, WRITE_POINTERS_PER_MS
from tms.core.message import KEY, MessageBlock
from tms.core.messaging import AllPublished, Page, RollbackRange, Stored
from tms.core.namespaces import NamespaceRules
from tms.core.topic import Topic, TopicId
from tms.core.transaction import Transaction
from tms.core.transactions import LocalTransactions, check_owner
from tms.messaging.admission import Admission
from tms.messaging.all_topics import publish_in_a_flush
from tms.messaging.cache import CacheBudget
from tms.messaging.cache_check import CacheCheck
from tms.messaging.engine import Engine
from tms.messaging.invalid_entries import InvalidEntries
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.publications import Publications
from tms.messaging.ranges import RangeService
from tms.messaging.reader import Reader
from tms.messaging.references import References, references
from tms.messaging.topic_state import TopicStates
from tms.messaging.topics import Topics
from tms.messaging.writes import Inversion, Publication, Storing, Writing

_INT64_MAX = 2**63 - 1
_ROLLBACK_ROWS = 10_000
"""Entries read and inverted at a time: all that one publish wrote, but for the very largest."""


class Service:
    """Messaging over the tables of one store."""

    def __init__(
        self,
        engine: Engine,
        publications: Publications | None = None,
        transactions: LocalTransactions | None = None,
        declared: Mapping[str, NamespaceRules] | None = None,
    ) -> None:
        """Serve on `engine`, which `close` closes.

        Write pointers are those of `transactions`; where that is None, of a manager elsewhere.
        `declared` has the rules of namespaces that have any, and may change.
        """
        self._engine = engine
        self._tables = engine.tables
        self._limits = engine.limits
        self._clock = engine.clock
        self._lanes = engine.lanes
        self._writer = engine.writer
        limits, metrics = engine.limits, engine.metrics
        budget = CacheBudget(limits.cache_bytes_max)
        self._states = TopicStates(self._tables, self._lanes, budget, limits.topics_in_memory_max)
        self._writer.join(self._states)
        self._admission = Admission(limits, engine.clock, {} if declared is None else declared)
        self._topics = Topics(self._tables, self._lanes, self._states, self._admission)
        self._publications = publications or Publications()
        self._publications.wake_by(self._states.wake, self._states.wake_all)
        self._transactions = transactions
        self._writing = Writing(
            self._tables, self._states, metrics, self._publications, transactions
        )
        self._invalid_entries = InvalidEntries(
            self._tables, self._lanes, self._writer, self._writing
        )
        self._reader = Reader(self._tables, self._lanes, self._clock, limits, metrics)
        self.ranges = RangeService(
            engine, self._states, self._publications, transactions, self.page
        )
        self._stopping = False
        metrics.age_s = self._age_s
        metrics.gauge("cache_bytes", "Bytes of the cache.", lambda: budget.used_bytes)
        metrics.gauge("topics_in_memory", "Topics in memory.", lambda: len(self._states))

    def _age_s(self, write_pointer: int) -> float | None:
        """Return how old what is in progress under a write pointer is, None where nothing is."""
        try:
            self._writing.check(write_pointer)
        except TmsError:
            return None
        return (self._clock.now_ms() - write_pointer / WRITE_POINTERS_PER_MS) / 1000

    @property
    def metrics(self) -> MessagingMetrics:
        """What is counted."""
        return self._engine.metrics

    @property
    def states(self) -> TopicStates:
        """The topics in use."""
        return self._states

    def cache_check(self) -> CacheCheck:
        """Return what compares the cache with the Message table."""
        return CacheCheck(self._states, self._tables, self._lanes, self._clock)

    async def create_topic(
        self, topic_id: TopicId, properties: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic, or a new generation of a deleted one."""
        await self._topics.create(topic_id, properties)

    async def update_topic(self, topic_id: TopicId, properties: Mapping[str, object]) -> None:
        """Replace all properties of a topic; what is not given has its default again."""
        await self._topics.update(topic_id, properties)

    async def delete_topic(self, topic_id: TopicId) -> None:
        """Delete a topic and so all of its messages."""
        await self._topics.delete(topic_id)

    async def topic(self, topic_id: TopicId) -> Topic:
        """Return a topic's metadata."""
        return (await self._states.get(topic_id)).topic

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        return await self._topics.names(namespace)

    async def publish(
        self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int | None = None
    ) -> RollbackRange | None:
        """Publish `payloads`, or what was stored under `write_pointer`; durable on return."""
        state = self._states.loaded(topic_id) or await self._states.get(topic_id)
        if write_pointer is not None:
            self._check_write_pointer(write_pointer)
        elif not payloads:
            raise InvalidRequest("empty_publish")
        payload_bytes = self._admission.payload_bytes(topic_id.namespace, payloads)
        published: RollbackRange | None = await self._writer.submit(
            Publication(self._writing, state, payloads, write_pointer, payload_bytes)
        )
        return published

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
    ) -> AllPublished:
        """Publish to several topics in a transaction that is started and committed at once."""
        if self._transactions is None:
            raise TransactionsElsewhere
        if not publications or not all(publications.values()):
            raise InvalidRequest("empty_publish")
        check_owner(owner, sequence)
        self._admission.all_payloads(publications)
        try:
            return await publish_in_a_flush(
                self._writing,
                self._writer,
                self._transactions,
                publications,
                owner=owner,
                sequence=sequence,
            )
        except TransactionDuplicate as error:
            return AllPublished(error.detail["transaction_id"], is_duplicate=True)

    async def store(self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int) -> None:
        """Store `payloads` under `write_pointer`, to be published later; durable on return."""
        state = await self._states.get(topic_id)
        if not payloads:
            raise InvalidRequest("invalid_store")
        self._check_write_pointer(write_pointer)
        payload_bytes = self._admission.payload_bytes(topic_id.namespace, payloads)
        sequence = await self._states.payload_sequence(state, write_pointer)
        await self._writer.submit(
            Storing(
                self._writing,
                state,
                payloads,
                write_pointer,
                sequence=sequence,
                payload_bytes=payload_bytes,
            )
        )

    def _check_write_pointer(self, write_pointer: int) -> None:
        if not 0 < write_pointer <= _INT64_MAX:
            raise InvalidRequest("invalid_write_pointer", write_pointer=write_pointer)
        age_ms = self._clock.now_ms() - write_pointer // WRITE_POINTERS_PER_MS
        if age_ms >= self._limits.transaction_lifetime_s_max * 1000:
            raise TransactionExpired(
                write_pointer=write_pointer,
                age_s=age_ms // 1000,
                transaction_lifetime_s_max=self._limits.transaction_lifetime_s_max,
            )
        self._writing.check(write_pointer)

    async def references(self, stored: Sequence[Stored]) -> References:
        """Return what a commit publishes that was stored. Raises `TopicNotFound`."""
        return await references(self._writing, stored)

    async def rollback(self, topic_id: TopicId, published: RollbackRange) -> None:
        """Roll back the entries of one publish: those in the range under its write pointer.

        Refused where the range holds entries and none of them is under that pointer. A range that
        holds nothing, or was rolled back before, is no error. Refused too where the transaction is
        committed, and where it is not known: then it may be.
        """
        first_key, last_key = _keys_of(published)
        write_pointer = published.write_pointer
        state = await self._states.get(topic_id)
        self._writing.check_rollback(write_pointer)
        next_key: bytes | None = first_key
        own_before = 0
        while next_key is not None and next_key <= last_key:
            rows, own, foreign, next_key = await self._lanes.read(
                self._tables.messages.own_entries,
                state.prefix,
                next_key,
                last_key,
                write_pointer,
                limit=_ROLLBACK_ROWS,
            )
            if foreign and not own and not own_before:
                raise RollbackRefused(write_pointer=write_pointer, foreign_entries=foreign)
            own_before += own
            if rows:
                # The cache first: it must not show what the table shows as rolled back.
                state.cache.invert(first_key, last_key, write_pointer)
                await self._writer.submit(Inversion(self._writing, state, write_pointer, rows))
        self._publications.rolled_back(write_pointer, topic_id, first_key, last_key)

    async def invert_published(self, write_pointers: Collection[int]) -> int:
        """Invert all that was published here under invalid pointers; return how much it was."""
        return await self._invalid_entries.invert_published(write_pointers)

    async def invert_rows(
        self,
        topic_id: TopicId,
        generation: int,
        write_pointer: int,
        rows: Sequence[tuple[bytes, bytes]],
    ) -> int:
        """Invert rows under an invalid pointer, as stored; return how many."""
        return await self._invalid_entries.invert_rows(topic_id, generation, write_pointer, rows)

    async def forget_topic(self, topic: Topic) -> bool:
        """Delete the row of a deleted topic of which nothing is left, if it is as given."""
        return await self._topics.forget(topic)

    def limit_of(self, asked: int | None) -> int:
        """Return how many messages a poll may give that asks for `asked`."""
        if asked is None:
            return self._limits.poll_messages_default
        if asked <= 0:
            raise InvalidRequest("invalid_limit", limit=asked)
        return min(asked, self._limits.poll_messages_max)

    async def page(
        self,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int,
        transaction: Transaction | int | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: bytes | None = None,
    ) -> Page:
        """Return the next part of a poll; where there is nothing, wait up to `wait_s` for it."""
        deadline = monotonic() + wait_s if wait_s > 0 else 0.0
        while True:
            state = self._states.loaded(topic_id) or await self._states.get(topic_id)
            seen = state.changes
            # Taken anew each time: what is committed changes while a reader waits.
            view = self._view(transaction, committed=committed)
            page = await self._reader.page(state, position, limit, view, end)
            if page.count or wait_s <= 0:
                return page
            if page.next_position is not None:
                # All that was read is skipped; what follows has not been looked at yet.
                position = page.next_position
                continue
            left_s = deadline - monotonic()
            if left_s <= 0 or self._stopping:
                return page
            await state.wait_for_change(seen, left_s)

    async def poll(
        self,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int | None = None,
        transaction: Transaction | int | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: bytes | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Give the messages from `position` on, in blocks, up to `limit`."""
        left = self.limit_of(limit)
        if wait_s < 0 or (wait_s and end is not None):
            raise InvalidRequest("invalid_wait", wait_s=wait_s)
        next_position: bytes | None = position
        while next_position is not None and left > 0:
            page = await self.page(
                topic_id,
                next_position,
                limit=left,
                transaction=transaction,
                committed=committed,
                wait_s=wait_s,
                end=end,
            )
            for block in page.blocks:
                yield block
            left -= page.count
            next_position = page.next_position
            wait_s = 0.0

    def _view(
        self, transaction: Transaction | int | None, *, committed: bool
    ) -> Transaction | None:
        """Return the snapshot to read by. None: everything is given."""
        if transaction is None and not committed:
            return None
        if isinstance(transaction, Transaction):
            return transaction
        if self._transactions is None:
            raise TransactionsElsewhere
        if transaction is None:
            return self._transactions.latest()
        return self._transactions.snapshot_of(transaction)

    def check_ready(self) -> None:
        """Raise `Unavailable` where a publish would be refused now."""
        if self._stopping:
            raise Stopping
        self._tables.check_writable()

    def stop_waiting(self) -> None:
        """Let polls that wait for messages answer now, and from now on at once."""
        self._stopping = True
        self._states.wake_all()

    async def close(self) -> None:
        """Write what is queued, refuse what comes after, and close the tables."""
        self.stop_waiting()
        await self._engine.close()


def _keys_of(published: RollbackRange) -> tuple[bytes, bytes]:
    """Return the keys of both ends. Raises `InvalidRequest` (invalid_rollback_range)."""
    start = (published.start_timestamp, published.start_sequence_id)
    end = (published.end_timestamp, published.end_sequence_id)
    timestamps = (published.start_timestamp, published.end_timestamp)
    sequence_ids = (published.start_sequence_id, published.end_sequence_id)
    if (
        not 0 < published.write_pointer <= _INT64_MAX
        or not all(0 <= timestamp <= _INT64_MAX for timestamp in timestamps)
        or not all(0 <= number < UINT16_COUNT for number in sequence_ids)
        or start > end
    ):
        raise InvalidRequest("invalid_rollback_range", start=start, end=end)
    return KEY.pack(*start), KEY.pack(*end)
