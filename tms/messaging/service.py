"""The messaging service: topics and the five verbs (`messaging.MessagingService`).

It checks a request, finds the topic's state, and leaves the work to the writer and the reader. It
belongs to the event loop in which it was opened, and never blocks that loop.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace

from tms.core.errors import (
    InvalidRequest,
    Stopping,
    TopicMoved,
    TransactionDuplicate,
    TransactionsElsewhere,
    TransactionUnknown,
)
from tms.core.services.commits import NOTHING, Carrier, CommitRequest
from tms.core.services.messaging import (
    AllPublished,
    Page,
    Passed,
    Published,
    RollbackRange,
    Stopped,
)
from tms.core.services.payload_values import PayloadValues
from tms.core.services.transactions import check_owner
from tms.core.values.caller import ANYBODY, Caller, check_may_change
from tms.core.values.message import (
    FIRST_ID,
    KEY_BYTES,
    NO_PAYLOAD_KEY,
    MessageBlock,
    id_after,
    key_after,
)
from tms.core.values.reading import Isolation, Reading, View
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.transaction import Transaction
from tms.messaging.admission import Admission
from tms.messaging.cache_check import CacheCheck
from tms.messaging.cleaned_topics import CleanedTopics
from tms.messaging.invert_invalid import InvalidEntries
from tms.messaging.joint_publications import publish_all
from tms.messaging.loaded_topics import TopicState
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.ranges.service import RangeService
from tms.messaging.reader import Reader
from tms.messaging.rollbacks import Rollbacks
from tms.messaging.schema_checks import SchemaChecks, check_not_compact
from tms.messaging.topics import Topics
from tms.messaging.waiting_reader import WaitingReader
from tms.messaging.write_requests import Publication, StorePayloads, Writing


class Service:
    """Messaging over the tables of one store."""

    def __init__(
        self,
        writing: Writing,
        *,
        topics: Topics | None = None,
        carriers: Sequence[Carrier] = (),
        checks: SchemaChecks | None = None,
    ) -> None:
        """Serve on the store of `writing`, which `close` closes.

        A publish to several topics carries what `carriers` carry. Without `checks`, no registry is
        installed.
        """
        engine = self._engine = writing.engine
        self._tables = engine.tables
        self._limits = engine.limits
        self._clock = engine.clock
        self._writer = engine.writer
        limits, metrics = engine.limits, engine.metrics
        self.schema_checks = checks or SchemaChecks(None)
        self._carriers = carriers
        self._states = engine.states
        self._topics = topics or Topics(engine, Admission(limits, engine.clock, {}))
        self._admission = self._topics.admission
        self.unchanging = self._topics.unchanging
        """Runs a read while no topic is being changed."""
        self._publications = engine.publications
        self.cleaned = CleanedTopics(engine, self._topics)
        """The access of cleanup to topics in use."""
        self._writing = writing
        transactions = self._transactions = writing.transactions
        self.invalid_entries = InvalidEntries(writing)
        self.rollbacks = Rollbacks(writing)
        self._reader = Reader(self._tables, engine.threads, self._clock, limits, metrics)
        self.ranges = RangeService(engine, transactions, self.page)
        self._stopping = False
        self._waiting = WaitingReader(self._states, self._read_again, lambda: self._stopping)
        metrics.age_s = self._admission.age_s if transactions is None else transactions.age_s

    @property
    def metrics(self) -> MessagingMetrics:
        """The counts."""
        return self._engine.metrics

    @property
    def values(self) -> PayloadValues | None:
        """Checks and decodes values; None if no registry is installed."""
        return self.schema_checks.values

    def cache_check(self) -> CacheCheck:
        """Return the comparison of the cache with the Message table."""
        return CacheCheck(self._engine)

    async def create_topic(
        self,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Create a topic, or a new generation of a deleted one."""
        check_may_change(caller, topic_id)
        self.schema_checks.check_properties(properties)
        await self._topics.create(topic_id, properties)

    async def update_topic(
        self, topic_id: TopicId, properties: Mapping[str, object], *, caller: Caller = ANYBODY
    ) -> None:
        """Replace all properties of a topic; missing ones are reset to their defaults."""
        check_may_change(caller, topic_id)
        self.schema_checks.check_properties(properties)
        await self._topics.update(topic_id, properties)

    async def trim_topic(
        self, topic_id: TopicId, before_ms: int, *, caller: Caller = ANYBODY
    ) -> None:
        """Expire everything written to a topic before a time."""
        check_may_change(caller, topic_id)
        await self._topics.trim(topic_id, before_ms)

    async def delete_topic(self, topic_id: TopicId, *, caller: Caller = ANYBODY) -> None:
        """Delete a topic and so all of its messages."""
        check_may_change(caller, topic_id)
        await self._topics.delete(topic_id)

    async def topic(self, topic_id: TopicId) -> TopicMetadata:
        """Return a topic's metadata."""
        return (await self._states.get(topic_id)).topic

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        return await self._topics.names(namespace)

    async def publish(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int | None = None,
        *,
        if_last: bytes | None = None,
        caller: Caller = ANYBODY,
    ) -> Published:
        """Publish `payloads`, or the messages stored under `write_pointer`; durable on return.

        If there is already a reference to the stored messages, which covers later ones too, nothing
        is written, and its range is returned again.
        """
        check_may_change(caller, topic_id)
        state = self._states.loaded(topic_id) or await self._states.get(topic_id)
        if write_pointer is not None:
            self._check_write_pointer(write_pointer, caller)
        elif not payloads:
            raise InvalidRequest("empty_publish")
        size = self._admission.payload_bytes(topic_id.namespace, payloads)
        topic = state.topic
        if payloads and if_last is None and not topic.properties:
            write = Publication(self._writing, state, payloads, write_pointer, size, checked=topic)
            published: Published = await self._writer.submit(write, caller)
            return published
        async with self._states.held((topic_id,)) as [state]:
            topic = await self.schema_checks.admit(state, payloads, caller)
            if if_last is not None and if_last[KEY_BYTES:].strip(b"\0"):
                await self._check_last_stored(topic_id, if_last)
            if not payloads and write_pointer is not None:
                await self._writing.references.find(state, (write_pointer,))
            write = Publication(
                self._writing, state, payloads, write_pointer, size, checked=topic, if_last=if_last
            )
            done: Published = await self._writer.submit(write, caller)
            return done

    async def _check_last_stored(self, topic_id: TopicId, if_last: bytes) -> None:
        """Raise `TopicMoved` if `if_last` is not the last message that its reference stands for."""
        async for block in self.poll(topic_id, Reading(id_after(if_last), limit=1)):
            for later in block:
                raise TopicMoved(topic=str(topic_id), last_id=later.id.hex())

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
        request: CommitRequest = NOTHING,
        caller: Caller = ANYBODY,
    ) -> AllPublished:
        """Publish to several topics in a transaction that is started and committed at once."""
        for topic_id in publications:
            check_may_change(caller, topic_id)
        if self._transactions is None:
            raise TransactionsElsewhere
        if not publications or not all(publications.values()):
            raise InvalidRequest("empty_publish")
        check_owner(owner, sequence)
        self._admission.all_payloads(publications)
        try:
            return await publish_all(
                self._writing,
                publications,
                admit=self.schema_checks.admit,
                carriers=self._carriers,
                request=request,
                owner=owner,
                sequence=sequence,
                caller=caller,
            )
        except TransactionDuplicate as error:
            return AllPublished(error.detail["transaction_id"], is_duplicate=True)

    async def store(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Store `payloads` under `write_pointer`, to be published later; durable on return."""
        check_may_change(caller, topic_id)
        async with self._states.held((topic_id,)) as [state]:
            if not payloads:
                raise InvalidRequest("invalid_store")
            check_not_compact(state.topic)
            self._check_write_pointer(write_pointer, caller)
            payload_bytes = self._admission.payload_bytes(topic_id.namespace, payloads)
            topic = await self.schema_checks.admit(state, payloads, caller, are_stored=True)
            sequence = await self._states.payload_sequence(state, write_pointer)
            await self._writer.submit(
                StorePayloads(
                    self._writing,
                    state,
                    payloads,
                    write_pointer,
                    sequence=sequence,
                    payload_bytes=payload_bytes,
                    checked=topic,
                ),
                caller,
            )

    def _check_write_pointer(self, write_pointer: int, caller: Caller) -> None:
        self._admission.write_pointer(write_pointer)
        if self._transactions is None:
            self._admission.check_age(write_pointer)
        try:
            self._writing.check(write_pointer, caller)
        except TransactionUnknown:
            self._admission.check_age(write_pointer)  # a more precise error, if that is why
            raise

    async def rollback(
        self, topic_id: TopicId, published: RollbackRange, *, caller: Caller = ANYBODY
    ) -> None:
        """Roll back the entries of one publish: those in the range under its write pointer.

        Refused if the range holds entries and none of them is under that pointer. A range without
        entries, or one that was rolled back before, is not an error. Refused too if the transaction
        is another principal's, committed, or unknown, because then it may be committed.
        """
        check_may_change(caller, topic_id)
        await self.rollbacks.roll_back(topic_id, published, caller)

    async def forget_published(self, write_pointers: Collection[int]) -> None:
        """Forget the entries under pointers: all are inverted, and no write is outstanding."""
        self._publications.forget(write_pointers)

    async def forget_topics(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        """Delete the rows of deleted topics that have no data left, if `topics` are still the rows.

        A topic's row stays while a transaction that has not ended has published to it: created
        again, the topic would have the same generation. Return the topics whose row was deleted.
        """
        is_noted = self._publications.is_noted
        return await self._topics.forget([topic for topic in topics if not is_noted(topic.id)])

    def limit_of(self, requested: int | None) -> int:
        """Return the most messages that a poll may return if its caller requests `requested`."""
        return self._limits.poll_limit(requested)

    def page_in_memory(self, topic_id: TopicId, reading: Reading) -> Page | None:
        """Return what `page` would, if all of it is in memory and everybody may see it."""
        state = self._states.loaded(topic_id) if reading.view is Isolation.ALL else None
        return None if state is None else self._reader.page_in_memory(state, reading)

    async def page(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the next part of a poll; if there is none, wait up to `wait_s` for it."""
        if wait_s > 0:
            return await self._waiting.page(topic_id, reading, wait_s, stopped)
        state = self._states.loaded(topic_id) or await self._states.get(topic_id)
        return await self._read(state, reading)

    async def end(self, topic_id: TopicId) -> bytes:
        """Return the position after the last entry of a topic."""
        state = self._states.loaded(topic_id) or await self._states.get(topic_id)
        last = state.last_key
        return FIRST_ID if last is None else key_after(last) + NO_PAYLOAD_KEY

    async def _read_again(self, state: TopicState, reading: Reading) -> Page:
        """Read for one who waited; usually the message is in memory."""
        if reading.view is Isolation.ALL:
            page = self._reader.page_in_memory(state, reading)
            if page is not None:
                return page
        return await self._read(state, reading)

    async def _read(self, state: TopicState, reading: Reading) -> Page:
        snapshot = self._snapshot_of(reading.view)
        page = await self._reader.page(state, reading, snapshot, self._clock.expiry_ms())
        if page.stopped_at is None or self._transactions is None:
            return page
        return replace(page, stopped_at=self._transactions.id_of(page.stopped_at))

    async def poll(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
        *,
        passed: Passed | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Yield the messages of `reading` in blocks."""
        remaining = self.limit_of(reading.limit)
        if wait_s < 0 or (wait_s and reading.end is not None):
            raise InvalidRequest("invalid_wait", wait_s=wait_s)
        next_position: bytes | None = reading.position
        while next_position is not None and remaining > 0:
            part = reading._replace(position=next_position, limit=remaining)
            page = await self.page(topic_id, part, wait_s, stopped)
            for block in page.blocks:
                yield block
            if page.stopped_at is not None and stopped is not None:
                stopped(page.stopped_at)
            if passed is not None:
                passed(page.after(next_position))
            remaining -= page.count
            next_position = page.next_position
            wait_s = 0.0

    def _snapshot_of(self, view: View) -> Transaction | None:
        """Return the snapshot to read by; None if everything is visible.

        A snapshot of another shard says nothing about the transactions here, so it is unknown.
        """
        if view is Isolation.ALL:
            return None
        if isinstance(view, Transaction):
            if self._transactions is not None:
                self._transactions.check_here(view.transaction_id)
            return view
        if self._transactions is None:
            raise TransactionsElsewhere
        if isinstance(view, int):
            return self._transactions.snapshot_of(view)
        return self._transactions.latest()

    @property
    def is_stopping(self) -> bool:
        """Whether polls that wait are answered at once."""
        return self._stopping

    def check_ready(self) -> None:
        """Raise `Unavailable` if a publish would be refused now."""
        if self._stopping:
            raise Stopping
        self._tables.check_writable()

    def stop_waiting(self) -> None:
        """Make polls that wait for messages answer now, and later ones at once."""
        self._stopping = True
        self._states.wake_all()

    async def close(self) -> None:
        """Write the queued requests, refuse later ones, and close the tables."""
        self.stop_waiting()
        await self.rollbacks.finish()
        await self._engine.close()
        await asyncio.to_thread(self._tables.close)
