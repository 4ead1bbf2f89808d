"""The writes of messaging: publications, payloads to store, and entries to roll back.

Each adds its rows to a batch, and takes effect in memory once the batch is durable
(`tms.core.services.group_commit.Write`). Writes under a transaction's write pointer are refused
once the transaction no longer accepts any: here too, because an earlier request of the flush may
end it.

The plain messages that one flush publishes to a topic are appended together, after everything else
that the flush appends to it: many small publications cost little more than one.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tms.core.errors import StoreUnavailable
from tms.core.services.commits import Carried
from tms.core.services.group_commit import Participant, Write
from tms.core.services.messaging import Published
from tms.core.values.batch import Batch
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.message import KEY_BYTES, key_after
from tms.core.values.topic import TopicMetadata
from tms.messaging.live_references import LiveReferences
from tms.messaging.loaded_topics import KeySequence, TopicState
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.unfinished_publications import KeyRange
from tms.transactions.journal import TransactionJournal

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

MESSAGE_OVERHEAD_BYTES = 100
"""The approximate weight of a queued message without its payload: Python's objects and the key."""
_JOINED_BYTES_MAX = 32 * 1024
"""Plain messages of at least this size are appended separately: the cost of one is small then."""


class _Append:
    """Entries that a flush adds to a topic under one write pointer, or as plain messages."""

    __slots__ = ("keys", "now_ms", "payload_bytes", "payloads", "pointer", "state")

    def __init__(self, state: TopicState, now_ms: int, pointer: int | None = None) -> None:
        """Add nothing yet; without payloads, a reference to what is stored under the pointer."""
        self.state = state
        self.now_ms = now_ms
        self.pointer = pointer
        self.payloads: list[bytes] = []
        self.payload_bytes = 0
        self.keys: list[bytes] = []

    def take(self, payloads: Sequence[bytes], payload_bytes: int) -> None:
        """Add an entry for each payload."""
        self.payloads += payloads
        self.payload_bytes += payload_bytes

    def put(self, batch: Batch, tables: "StoreTables") -> None:
        """Assign keys to the entries, and add them to the batch."""
        state, pointer = self.state, self.pointer
        # An entry before the earliest live time would be expired from the start: a clock may have
        # been ahead when the ttl was raised.
        now_ms = max(self.now_ms, state.topic.live_from_ms)
        keys = self.keys = state.sequence.take(len(self.payloads) or 1, now_ms)
        if self.payloads:
            tables.messages.append(batch, state.prefix, keys, self.payloads, pointer)
        else:
            assert pointer is not None
            tables.messages.append_reference(batch, state.prefix, keys[0], pointer)
        state.last_key = keys[-1]

    def show(self, metrics: MessagingMetrics) -> None:
        """Show the entries to readers of the cache."""
        state, count, size = self.state, len(self.payloads), self.payload_bytes
        if self.payloads:
            state.cache.append(self.keys, self.payloads, size, self.pointer)
        else:
            assert self.pointer is not None
            state.cache.append_reference(self.keys[0], self.pointer)
        state.end = key_after(self.keys[-1])
        for counted in (metrics, state.traffic):
            counted.published_messages += count
            counted.published_bytes += size


class PlainAppends(Participant):
    """The plain messages of each flush, by topic."""

    def __init__(self, tables: "StoreTables", metrics: MessagingMetrics) -> None:
        self._tables = tables
        self._metrics = metrics
        self._all: list[_Append] = []
        self._open: dict[TopicState, _Append] = {}

    def open(self, state: TopicState, now_ms: int) -> _Append:
        """Return the append to which the flush adds more plain messages of a topic."""
        append = self._open.get(state)
        if append is None or append.payload_bytes >= _JOINED_BYTES_MAX:
            append = self._open[state] = _Append(state, now_ms)
            self._all.append(append)
        return append

    def add_rows(self, batch: Batch) -> None:
        """Add the messages to the batch."""
        for append in self._all:
            append.put(batch, self._tables)

    def after_flush(self) -> None:
        """Show the messages after everything else, in the order of their keys, and start over."""
        for append in self._all:
            append.show(self._metrics)
            append.state.changed()
        self._all, self._open = [], {}

    def flush_failed(self) -> None:
        """Start over."""
        self._all, self._open = [], {}


class Writing:
    """The shared parts of all writes of one store's messages."""

    def __init__(
        self, engine: StoreRuntime, transactions: TransactionJournal | None = None
    ) -> None:
        """Write through `engine`; pointers are those of `transactions`, or another manager's."""
        self.engine = engine
        self.tables = engine.tables
        self.states = engine.states
        self.metrics = engine.metrics
        self.publications = engine.publications
        self.transactions = transactions
        self.references = LiveReferences(engine, transactions)
        self.plain = PlainAppends(engine.tables, engine.metrics)
        engine.writer.join(self.plain)

    def check(self, write_pointer: int, caller: Caller = ANYBODY) -> int:
        """Return the earliest time, in ms, of entries under a pointer.

        A search for a transaction's entries can begin there, whatever the clock did in the
        meantime. Raises `TransactionNotInProgress` or `TransactionUnknown` if nothing may be
        written, and `NotPermitted` if `caller` may not write, which only the first check needs.
        """
        if self.transactions is None:
            return 0
        keys_from_ms = self.transactions.check(write_pointer)
        if caller.principal is not None:
            self.transactions.check_own(write_pointer, caller)
        return keys_from_ms

    def check_rollback(self, write_pointer: int, caller: Caller = ANYBODY) -> None:
        """Raise `TransactionNotInProgress` or `TransactionUnknown` if it may be committed.

        Raises `NotPermitted` as `check`.
        """
        if self.transactions is not None:
            self.transactions.check_rollback(write_pointer)
            if caller.principal is not None:
                self.transactions.check_own(write_pointer, caller)


class TopicWrite(Write):
    """A write to one topic, whose state it holds."""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        size_bytes: int,
        checked: TopicMetadata | None = None,
    ) -> None:
        """Write what was checked for the properties of `checked`; None if any topic accepts it."""
        self.state = state
        self.size_bytes = size_bytes
        self._writing = writing
        self._checked = checked

    def check_topic(self) -> None:
        """Raise `TopicNotFound` or `StoreUnavailable` if the topic has changed."""
        state, checked = self.state, self._checked
        state.check_current()
        if checked is None or state.topic is checked:
            return
        if state.topic.properties != checked.properties:
            raise StoreUnavailable(reason="the topic was changed in the meantime; try again")

    def on_queued(self) -> None:
        """Keep the topic's state in memory."""
        self._writing.states.hold(self.state)

    def on_failed(self) -> None:
        """Restart the cache above the assigned keys: the table may turn out to have them."""
        state = self.state
        if not state.gone:
            state.cache.restart(state.sequence.next_floor())

    def release(self) -> None:
        """Release the topic's state."""
        self._writing.states.release(self.state)


class Publication(TopicWrite, Carried):
    """Messages for the Message table, or a reference to messages stored before."""

    _is_joined = False
    """Whether plain messages of other requests are added with its own."""
    _append: _Append | None = None
    """The entries that it is a part of; None if there already was a reference."""
    _first = 0
    """The index of its first entry among those."""
    _reference_key = b""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        payloads: Sequence[bytes],
        write_pointer: int | None,
        payload_bytes: int,
        *,
        checked: TopicMetadata | None = None,
        if_last: bytes | None = None,
    ) -> None:
        size_bytes = payload_bytes + MESSAGE_OVERHEAD_BYTES * (len(payloads) or 1)
        super().__init__(writing, state, size_bytes, checked)
        self._payload_bytes = payload_bytes
        self._payloads = payloads
        self._write_pointer = write_pointer
        self._if_last = if_last

    def check(self, write_pointers: Collection[int]) -> None:  # noqa: ARG002
        """Raise `TopicNotFound` or `StoreUnavailable` if it cannot be a part of a commit now."""
        self.check_topic()
        if not self._payloads and self._write_pointer is not None:
            self._writing.references.key(self.state, self._write_pointer)

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add an entry for each payload; without payloads, a reference unless there is one."""
        self.check_topic()
        write_pointer = self._write_pointer
        if write_pointer is None and self._if_last is None:
            self._is_joined = True
            append = self._append = self._writing.plain.open(self.state, now_ms)
            self._first = len(append.payloads)
            append.take(self._payloads, self._payload_bytes)
            return
        if write_pointer is not None:
            now_ms = max(now_ms, self._writing.check(write_pointer))
        if self._if_last is not None:
            self.state.check_last(self._if_last)
        if not self._payloads:
            assert write_pointer is not None
            key = self._writing.references.key(self.state, write_pointer)
            if key is not None:
                self._reference_key = key
                return
        keys = self._put(batch, now_ms)
        if write_pointer is not None:
            self._note(write_pointer, keys)

    def _note(self, write_pointer: int, keys: Sequence[bytes]) -> None:
        if not self._payloads:
            self._writing.references.record(self.state, write_pointer, keys[0])
        if self._writing.transactions is None:
            return  # another manager does not report when to forget it
        publications, topic = self._writing.publications, self.state.topic
        publications.published(write_pointer, topic, keys[0], keys[-1])
        if not self._payloads:
            publications.referred(write_pointer, topic, keys[0])

    def add_under(self, write_pointer: int, batch: Batch, now_ms: int) -> None:
        """Add the entries under a pointer committed in this flush; the topic must be current."""
        self._write_pointer = write_pointer
        self._put(batch, now_ms)

    def _put(self, batch: Batch, now_ms: int) -> Sequence[bytes]:
        """Add the entries without those of other requests; return their keys."""
        append = self._append = _Append(self.state, now_ms, self._write_pointer)
        append.take(self._payloads, self._payload_bytes)
        append.put(batch, self._writing.tables)
        return append.keys

    def on_durable(self) -> None:
        """Show the entries to readers of the cache, unless they are shown with those of others."""
        if self._is_joined:
            return
        if self._append is not None:
            self._append.show(self._writing.metrics)
        self._writing.states.touch(self.state)  # a reference may cover more messages than before

    def on_failed(self) -> None:
        """Record that a reference may or may not exist."""
        super().on_failed()
        if not self._payloads and self._write_pointer is not None:
            self._writing.references.doubt(self.state, self._write_pointer)

    def result(self) -> Published:
        """Return the ids of the entries written."""
        append = self._append
        first_key = self._reference_key if append is None else append.keys[self._first]
        return Published(first_key, len(self._payloads), self._write_pointer)


class StorePayloads(TopicWrite):
    """Payloads for the Payload table."""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        payloads: Sequence[bytes],
        write_pointer: int,
        *,
        sequence: KeySequence,
        payload_bytes: int,
        checked: TopicMetadata,
    ) -> None:
        size_bytes = payload_bytes + MESSAGE_OVERHEAD_BYTES * len(payloads)
        super().__init__(writing, state, size_bytes, checked)
        self._payload_bytes = payload_bytes
        self._payloads = payloads
        self._write_pointer = write_pointer
        self._sequence = sequence
        self._first_key = b""

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add a row for each payload."""
        self.check_topic()
        writing = self._writing
        # Not before the topic's last entry, even if the clock was set back: retention only deletes
        # messages older than an entry that existed when it looked at the stored ones.
        least_ms = max(writing.check(self._write_pointer), self.state.sequence.last_ms)
        now_ms = max(now_ms, self.state.topic.live_from_ms, least_ms)
        keys = self._sequence.take(len(self._payloads), now_ms)
        self._first_key = keys[0]
        if writing.transactions is not None:
            writing.publications.stored(self._write_pointer, self.state.topic, keys[0])
        writing.tables.payloads.append(
            batch, self.state.prefix, self._write_pointer, keys, self._payloads
        )

    def on_durable(self) -> None:
        """Count the payloads, and make readers read them from the table."""
        prefix, pointer = self.state.prefix, self._write_pointer
        self.state.cache.runs.stored(pointer)
        self._writing.states.stored.add(prefix, pointer, self._first_key, self.size_bytes)
        self._writing.metrics.stored_messages += len(self._payloads)
        self._writing.metrics.stored_bytes += self._payload_bytes


class RollBack(TopicWrite):
    """Rows of the Message table to be rolled back, as the table returned them, ascending."""

    def __init__(
        self,
        writing: Writing,
        state: TopicState,
        write_pointer: int,
        rows: Sequence[tuple[bytes, bytes]],
        *,
        part_of: KeyRange | None = None,
    ) -> None:
        """Roll back `rows`, which are the first part, or a later one, of the range `part_of`."""
        super().__init__(writing, state, sum(len(key) + len(value) for key, value in rows))
        self._write_pointer = write_pointer
        self._rows = rows
        self._part_of = part_of
        self._first_key, self._last_key = (rows[index][0][-KEY_BYTES:] for index in (0, -1))

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the rows with their pointer inverted."""
        writing, topic, write_pointer = self._writing, self.state.topic, self._write_pointer
        self.check_topic()
        writing.check_rollback(write_pointer)
        writing.tables.messages.invert(batch, self._rows)
        writing.references.rolled_back(self.state, write_pointer, self._first_key, self._last_key)
        if self._part_of is not None and writing.transactions is not None:
            writing.publications.rolling_back(write_pointer, topic, *self._part_of)

    def on_durable(self) -> None:
        """Make readers of the cache skip the entries."""
        self.state.cache.invert(self._first_key, self._last_key, self._write_pointer)
        self._writing.states.touch(self.state)
        self._writing.metrics.rolled_back_messages += len(self._rows)

    def on_failed(self) -> None:
        """Record that a reference may or may not be rolled back."""
        super().on_failed()
        self._writing.references.doubt(self.state, self._write_pointer)
