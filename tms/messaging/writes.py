"""What the writer writes: a publication, payloads to store, or entries to invert.

Each adds its rows to a batch, and takes effect in memory once the batch is durable.
"""

from collections.abc import Sequence
from typing import Protocol

from tms.core.message import KEY
from tms.core.messaging import RollbackRange
from tms.core.tables import Batch, Tables
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.sequence import KeySequence
from tms.messaging.topic_state import TopicState

MESSAGE_OVERHEAD_BYTES = 100
"""What a queued message weighs besides its payload, about: Python's objects and the row's key."""


class Write(Protocol):
    """One request to the writer."""

    @property
    def state(self) -> TopicState:
        """The topic it is for."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds while it waits."""
        ...

    def add_to(self, batch: Batch, tables: Tables, now_ms: int) -> None:
        """Take keys and add rows to `batch`.

        Raises `TopicNotFound`, `StoreUnavailable`: then nothing was added, or nothing can be.
        """
        ...

    def apply(self, metrics: MessagingMetrics) -> None:
        """Take effect in memory: the batch is durable."""
        ...

    def result(self) -> RollbackRange | None:
        """Return what the caller is answered."""
        ...


class Publication:
    """Messages for the Message table, or a reference to what was stored before."""

    def __init__(
        self,
        state: TopicState,
        payloads: Sequence[bytes],
        write_pointer: int | None,
        payload_bytes: int,
    ) -> None:
        self.state = state
        self.size_bytes = payload_bytes + MESSAGE_OVERHEAD_BYTES * len(payloads)
        self._payload_bytes = payload_bytes
        self._payloads = payloads
        self._write_pointer = write_pointer
        self._keys: list[bytes] = []

    def add_to(self, batch: Batch, tables: Tables, now_ms: int) -> None:
        """Add an entry for each payload; a reference where there is none."""
        state = self.state
        state.check_current()
        self._keys = state.sequence.take(len(self._payloads) or 1, now_ms)
        if self._payloads:
            tables.messages.append(
                batch, state.prefix, self._keys, self._payloads, self._write_pointer
            )
        else:
            assert self._write_pointer is not None
            tables.messages.append_reference(
                batch, state.prefix, self._keys[0], self._write_pointer
            )

    def apply(self, metrics: MessagingMetrics) -> None:
        """Show the entries to readers of the cache."""
        if self._payloads:
            self.state.cache.append(
                self._keys, self._payloads, self._payload_bytes, self._write_pointer
            )
        else:
            assert self._write_pointer is not None
            self.state.cache.append_reference(self._keys[0], self._write_pointer)
        metrics.published_messages += len(self._payloads)
        metrics.published_bytes += self._payload_bytes

    def result(self) -> RollbackRange | None:
        """Return the range of a transactional publication."""
        if self._write_pointer is None:
            return None
        return RollbackRange(
            self._write_pointer, *KEY.unpack(self._keys[0]), *KEY.unpack(self._keys[-1])
        )


class Storing:
    """Payloads for the Payload table."""

    def __init__(
        self,
        state: TopicState,
        payloads: Sequence[bytes],
        write_pointer: int,
        sequence: KeySequence,
        payload_bytes: int,
    ) -> None:
        self.state = state
        self.size_bytes = payload_bytes + MESSAGE_OVERHEAD_BYTES * len(payloads)
        self._payload_bytes = payload_bytes
        self._payloads = payloads
        self._write_pointer = write_pointer
        self._sequence = sequence

    def add_to(self, batch: Batch, tables: Tables, now_ms: int) -> None:
        """Add a row for each payload."""
        self.state.check_current()
        keys = self._sequence.take(len(self._payloads), now_ms)
        tables.payloads.append(batch, self.state.prefix, self._write_pointer, keys, self._payloads)

    def apply(self, metrics: MessagingMetrics) -> None:
        """Count; readers find payloads in the table alone."""
        metrics.stored_messages += len(self._payloads)
        metrics.stored_bytes += self._payload_bytes

    def result(self) -> RollbackRange | None:
        """Return nothing: payloads are reached through a reference alone."""
        return None


class Inversion:
    """Rows of the Message table to be rolled back, as the table gave them."""

    def __init__(self, state: TopicState, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self.state = state
        self.size_bytes = sum(len(key) + len(value) for key, value in rows)
        self._rows = rows

    def add_to(self, batch: Batch, tables: Tables, now_ms: int) -> None:  # noqa: ARG002
        """Add the rows with their pointer inverted."""
        self.state.check_current()
        tables.messages.invert(batch, self._rows)

    def apply(self, metrics: MessagingMetrics) -> None:
        """Count; the cache was told before the table."""
        metrics.rolled_back_messages += len(self._rows)

    def result(self) -> RollbackRange | None:
        """Return nothing."""
        return None
