"""Keeps topics within the bounds in their properties: `retention_messages` and `retention_bytes`.

Excess messages expire: the topic is trimmed (`live_from_ms`), and expiry deletes them. The cleanup
thread counts each new entry once (`cleanup.counted_messages`).

It counts committed messages, including stored ones, and the bytes of their payloads, keys and
headers. Counting waits at an entry of a transaction in progress; earlier messages are trimmed.
Counting starts from scratch with each process, and when entries were deleted in another way.

No transaction loses a part: a trim leaves the stored messages of a transaction that is in progress,
or whose reference is not counted yet (`cleanup.uncounted_stored`).
"""

from collections import deque
from collections.abc import Generator

from cleanup.counted_messages import CountedMessages, CountedSlice, count_into
from cleanup.expiry import stored_ms, written_ms
from cleanup.fates import Fate, Fates, FatesNow
from cleanup.loop_calls import TopicCalls
from cleanup.ranges import ROWS_COUNTED, Reason, Step
from cleanup.uncounted_stored import UncountedStored, first_stored_ms
from tables.keys import (
    FRAMED_KIND,
    KINDS_WITHOUT_POINTER,
    POINTER_END,
    REFERENCE_KIND,
    TRANSACTIONAL_FRAMED_KIND,
    after_prefix,
    entry_pointer_of,
    is_framed_payload,
    payload_prefix,
    prefix,
)
from tables.store import MESSAGE, PAYLOAD, Store
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.values.frame import read_frame
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import retention_of


class KeptTopics:
    """Keeps the topics of one store within their bounds. Used from one thread."""

    def __init__(self, store: Store, calls: TopicCalls, limits: Limits, clock: Clock) -> None:
        """Count in `store`, which the services behind `calls` use."""
        self._store = store
        self._calls = calls
        self._clock = clock
        self._rows_max = min(limits.cleanup_slice_rows, ROWS_COUNTED)
        self._uncounted = UncountedStored(store, clock, limits, self._rows_max)
        self._before: dict[TopicId, CountedMessages] = {}
        self._now: dict[TopicId, CountedMessages] = {}

    def begin_pass(self) -> None:
        """Forget topics that the last pass did not meet."""
        self._before, self._now = self._now, {}

    def forget(self, topic_id: TopicId) -> None:
        """Count a topic from scratch: counted entries are gone."""
        self._before.pop(topic_id, None)
        self._now.pop(topic_id, None)

    def held_ms(self) -> int | None:
        """Return the time of the oldest message at which a bound waits, in ms since 1970.

        Its transaction is in progress. None if no bound waits. Any thread may call this.
        """
        times = [
            each.held_ms for each in (*self._before.copy().values(), *self._now.copy().values())
        ]
        return min((time for time in times if time is not None), default=None)

    def steps(self, topic: TopicMetadata, fates_now: FatesNow) -> Generator[Step, None, None]:
        """Count new entries of a topic, and trim it if it has too many; yield each step.

        Raises the `Unavailable` errors, `StoreCorrupt`.
        """
        retention = retention_of(topic.properties)
        if retention == (None, None):
            return
        start = prefix(topic.id, topic.generation)
        counted = self._before.get(topic.id)
        bounds = (topic.generation, retention)
        if counted is None or (counted.generation, counted.retention) != bounds:
            counted = CountedMessages(*bounds, start + KEY.pack(self._live_ms(topic), 0))
        self._now[topic.id] = counted
        # Read before the rows: a transaction in progress may be rolled back after they are read.
        fates = fates_now()
        yield from self._count(counted, topic, fates)
        if counted.trim_ms <= self._live_ms(topic):
            return
        written = self._calls.written(topic)
        if written is None:
            return
        least_ms = yield from self._uncounted.least_ms(counted, topic, fates, written)
        if least_ms is not None and least_ms < counted.trim_ms:
            counted.held_ms = least_ms
        before_ms = counted.trim_ms if least_ms is None else min(least_ms, counted.trim_ms)
        if before_ms > self._live_ms(topic):
            self._calls.trim(topic, before_ms)
            yield Step(MESSAGE, Reason.RETENTION)

    def _live_ms(self, topic: TopicMetadata) -> int:
        return topic.first_live_ms(self._clock.deletion_ms())

    def _count(
        self, counted: CountedMessages, topic: TopicMetadata, fates: Fates
    ) -> Generator[Step, None, None]:
        """Count new entries, up to one of a transaction in progress."""
        stop = after_prefix(prefix(topic.id, topic.generation))
        counted.held_ms = None
        has_bytes = counted.retention.bytes is not None
        is_done = False
        while not is_done:
            with self._store.scan(MESSAGE, counted.next_row, stop, limit=self._rows_max) as scanned:
                rows = [
                    (key, value[:POINTER_END], _size(value) if has_bytes else 0)
                    for key, value in scanned
                ]
            is_done = len(rows) < self._rows_max
            yield Step(MESSAGE, Reason.RETENTION, scanned=max(1, len(rows)))
            for key, value, size in rows:
                pointer = entry_pointer_of(value)
                fate = fates.settled(pointer)
                if fate is Fate.UNDECIDED:
                    counted.held_ms = written_ms(key)
                    is_done = True
                    break
                if value[0] == REFERENCE_KIND:
                    yield from self._count_stored(counted, topic, pointer, fate, fates)
                elif fate is Fate.SEEN:
                    counted.add(written_ms(key), 1, size)
                counted.next_row = key + b"\x00"
            counted.drop_too_much()

    def _count_stored(
        self, counted: CountedMessages, topic: TopicMetadata, pointer: int, fate: Fate, fates: Fates
    ) -> Generator[Step, None, None]:
        """Count the stored messages of a reference: all, or none if the pass ends here."""
        run = payload_prefix(prefix(topic.id, topic.generation), pointer)
        if fate is not Fate.SEEN:
            if fate is Fate.UNKNOWN and fates.are_elsewhere:
                # Readers may see it, so it stays, although it is unknown whether it counts.
                oldest_ms = first_stored_ms(self._store, run, self._live_ms(topic))
                if oldest_ms is not None:
                    counted.add(oldest_ms, 0, 0)
            return
        has_bytes = counted.retention.bytes is not None
        live_ms = max(1, self._live_ms(topic))  # at time 0 there may be a seal
        at, stop = run + KEY.pack(live_ms, 0), after_prefix(run)
        slices: deque[CountedSlice] = deque()
        is_done = False
        while not is_done:
            with self._store.scan(PAYLOAD, at, stop, limit=self._rows_max) as scanned:
                rows = [(key, _stored_size(key, body) if has_bytes else 0) for key, body in scanned]
            is_done = len(rows) < self._rows_max
            yield Step(PAYLOAD, Reason.RETENTION, scanned=max(1, len(rows)))
            for key, size in rows:
                count_into(slices, counted.retention, CountedSlice(stored_ms(key), 1, size))
                at = key + b"\x00"
        counted.extend(slices)


def _size(value: bytes) -> int:
    """Return how many bytes a Message row has of payload, key and headers."""
    kind = value[0] if value else -1
    at = 1 if kind in KINDS_WITHOUT_POINTER else POINTER_END
    if kind in (FRAMED_KIND, TRANSACTIONAL_FRAMED_KIND):
        return _framed_size(value, at)
    return len(value) - at


def _stored_size(key: bytes, body: bytes) -> int:
    """Return how many bytes a Payload row has of payload, key and headers."""
    return _framed_size(body, 0) if is_framed_payload(key) else len(body)


def _framed_size(body: bytes, at: int) -> int:
    frame = read_frame(body, at)
    headers = sum(len(name.encode()) + len(value) for name, value in frame.headers.items())
    return len(body) - frame.end + len(frame.key or b"") + headers
