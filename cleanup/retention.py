"""Keeps topics within the bounds that they ask for: `retention_messages` and `retention_bytes`.

What is too much expires: the topic is trimmed (`live_from_ms`), and expiry takes it away. A topic
is counted in slices of about a hundredth of its bound, each once, as its entries come. The oldest
slice goes if what is left without it is as much as was asked for. So no more than that goes, and
about a slice more than that may stay.

Counted are messages that all readers see, stored ones too, and their bytes with keys and headers.
Counting waits at an entry that is not decided. It begins anew with each process, and when entries
have gone otherwise.
"""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field

from cleanup.expiry import stored_ms, written_ms
from cleanup.fates import Fate, FatesNow
from cleanup.loop_calls import TopicCalls
from cleanup.ranges import ROWS_COUNTED, Reason, Step
from tables.keys import (
    POINTER_END,
    REFERENCE_KIND,
    after_prefix,
    entry_pointer_of,
    payload_prefix,
    prefix,
)
from tables.store import MESSAGE, PAYLOAD, Store
from tms.core.clock import Clock
from tms.core.limits import Limits
from tms.core.message import KEY
from tms.core.topic import TopicId, TopicMetadata
from tms.core.topic_properties import Retention, retention_of

_SLICES = 100


@dataclass(slots=True)
class _Slice:
    """Entries one behind the other."""

    from_ms: int
    """When the oldest message was written, in ms since 1970: published, or stored before that."""
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Counted:
    """What was counted of a topic's generation."""

    generation: int
    retention: Retention
    next_row: bytes
    """Where to go on."""
    slices: deque[_Slice] = field(default_factory=deque)
    messages: int = 0
    bytes: int = 0
    trim_ms: int = 0
    """What was written before that is too much."""

    def add(self, written_ms: int, messages: int, size: int) -> None:
        """Count an entry behind all others; of stored messages the oldest's time."""
        if not self.slices or self._is_full(self.slices[-1]):
            self.slices.append(_Slice(written_ms))
        newest = self.slices[-1]
        newest.from_ms = min(newest.from_ms, written_ms)
        newest.messages += messages
        newest.bytes += size
        self.messages += messages
        self.bytes += size

    def _is_full(self, newest: _Slice) -> bool:
        bounds = zip((newest.messages, newest.bytes), self.retention, strict=True)
        return any(bound is not None and has * _SLICES >= bound for has, bound in bounds)

    def drop_too_much(self) -> None:
        """Drop the oldest slices as long as the others are enough."""
        while self._is_oldest_too_much():
            self.drop_oldest()
            self.trim_ms = max(self.trim_ms, min(each.from_ms for each in self.slices))

    def _is_oldest_too_much(self) -> bool:
        if len(self.slices) <= 1:
            return False
        oldest = self.slices[0]
        left = (self.messages - oldest.messages, self.bytes - oldest.bytes)
        bounds = zip(left, self.retention, strict=True)
        return any(bound is not None and has >= bound for has, bound in bounds)

    def drop_oldest(self) -> None:
        """Count the oldest slice no more."""
        oldest = self.slices.popleft()
        self.messages -= oldest.messages
        self.bytes -= oldest.bytes


class KeptTopics:
    """Keeps the topics of one store within their bounds. Used from one thread."""

    def __init__(self, store: Store, calls: TopicCalls, limits: Limits, clock: Clock) -> None:
        """Count in `store`, which the services use that `calls` asks."""
        self._store = store
        self._calls = calls
        self._clock = clock
        self._rows_max = min(limits.cleanup_slice_rows, ROWS_COUNTED)
        self._before: dict[TopicId, _Counted] = {}
        self._now: dict[TopicId, _Counted] = {}

    def begin_pass(self) -> None:
        """Forget topics that the pass before did not come across."""
        self._before, self._now = self._now, {}

    def forget(self, topic_id: TopicId) -> None:
        """Count a topic anew: entries are gone that were counted."""
        self._before.pop(topic_id, None)
        self._now.pop(topic_id, None)

    def steps(self, topic: TopicMetadata, fates: FatesNow) -> Generator[Step, None, None]:
        """Count what is new in a topic, and trim it if it has too much; give each step.

        Raises the `Unavailable` errors, `StoreCorrupt`.
        """
        retention = retention_of(topic.properties)
        if retention == (None, None):
            return
        start = prefix(topic.id, topic.generation)
        counted = self._before.get(topic.id)
        asked = (topic.generation, retention)
        if counted is None or (counted.generation, counted.retention) != asked:
            live_ms = topic.first_live_ms(self._clock.expiry_ms())
            counted = _Counted(*asked, start + KEY.pack(live_ms, 0))
        self._now[topic.id] = counted
        yield from self._count(counted, topic, fates)
        if counted.trim_ms > topic.first_live_ms(self._clock.expiry_ms()):
            self._calls.trim(topic, counted.trim_ms)
            yield Step(MESSAGE, Reason.RETENTION)

    def _count(
        self, counted: _Counted, topic: TopicMetadata, fates: FatesNow
    ) -> Generator[Step, None, None]:
        """Count what is new, up to what is not decided."""
        stop = after_prefix(prefix(topic.id, topic.generation))
        is_done = False
        while not is_done:
            with self._store.scan(MESSAGE, counted.next_row, stop, limit=self._rows_max) as found:
                rows = [(key, value[:POINTER_END], len(value)) for key, value in found]
            is_done = len(rows) < self._rows_max
            yield Step(MESSAGE, Reason.RETENTION, scanned=max(1, len(rows)))
            for key, value, size in rows:
                pointer = entry_pointer_of(value)
                fate = fates().of(pointer)
                if fate is Fate.UNDECIDED:
                    return
                counted.next_row = key + b"\x00"
                if fate is Fate.SEEN and value[0] == REFERENCE_KIND:
                    yield from self._count_stored(counted, topic, pointer)
                elif fate is Fate.SEEN:
                    counted.add(written_ms(key), 1, size)
            counted.drop_too_much()

    def _count_stored(
        self, counted: _Counted, topic: TopicMetadata, pointer: int
    ) -> Generator[Step, None, None]:
        """Count what a reference stands for."""
        run = payload_prefix(prefix(topic.id, topic.generation), pointer)
        live_ms = max(1, topic.first_live_ms(self._clock.expiry_ms()))  # at 0 may be a seal
        at, stop = run + KEY.pack(live_ms, 0), after_prefix(run)
        oldest_ms, messages, size = None, 0, 0
        is_done = False
        while not is_done:
            with self._store.scan(PAYLOAD, at, stop, limit=self._rows_max) as found:
                rows = [(key, len(value)) for key, value in found]
            is_done = len(rows) < self._rows_max
            yield Step(PAYLOAD, Reason.RETENTION, scanned=max(1, len(rows)))
            if rows:
                oldest_ms = stored_ms(rows[0][0]) if oldest_ms is None else oldest_ms
                at = rows[-1][0] + b"\x00"
            messages += len(rows)
            size += sum(length for _, length in rows)
        if oldest_ms is not None:
            counted.add(oldest_ms, messages, size)
