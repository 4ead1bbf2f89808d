"""Finds the oldest stored messages of a topic that are not yet counted for its bound.

Readers get stored messages at the place of their reference, which may be written long after them. A
trim that has not counted them would delete a part of a transaction. They are found as follows:

1. Under the pointers of transactions in progress that stored in this process: as recorded in
   `WrittenSoFar`, which is read after counting, together with the end of the topic.
2. Of transactions in progress from before a restart, in the Payload table: once for each pointer.
3. Of transactions that have ended by that moment: their references are below the end, so they are
   searched from the next row to count on.
4. A message stored after that moment gets a time not before the topic's last entry
   (`tms.messaging.write_requests`), and a trim ends at a counted entry.

If transactions are managed elsewhere, every pointer that is young enough counts as in progress.
"""

from collections.abc import Generator

from cleanup.counted_messages import CountedMessages
from cleanup.expiry import stored_ms
from cleanup.fates import Fates
from cleanup.ranges import Reason, Step, first_key
from tables.keys import (
    POINTER_END,
    REFERENCE_KIND,
    after_prefix,
    payload_pointer_of,
    payload_prefix,
    prefix,
    write_pointer_of,
)
from tables.store import MESSAGE, PAYLOAD, Store
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.clock import Clock
from tms.core.values.cleanup import WrittenSoFar
from tms.core.values.entries import PLAIN
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata


def first_stored_ms(store: Store, run: bytes, live_ms: int) -> int | None:
    """Return the time of the oldest live message under a payload prefix, None if none."""
    live = run + KEY.pack(max(1, live_ms), 0)  # at time 0 there may be a seal
    key = first_key(store, PAYLOAD, live, after_prefix(run))
    return None if key is None else stored_ms(key)


class UncountedStored:
    """Finds stored messages of one store that are not counted. Used from one thread."""

    def __init__(self, store: Store, clock: Clock, limits: Limits, rows_max: int) -> None:
        """Read at most `rows_max` rows at a time."""
        self._store = store
        self._clock = clock
        self._grace_ms = limits.cleanup_grace_s * MS_PER_S
        self._rows_max = rows_max

    def least_ms(
        self, counted: CountedMessages, topic: TopicMetadata, fates: Fates, written: WrittenSoFar
    ) -> Generator[Step, None, int | None]:
        """Return the time of the oldest such message, in ms since 1970; None if there is none.

        `written` was read after `counted`. Yields each step. Raises `StoreUnavailable`,
        `StoreCorrupt`.
        """
        start = prefix(topic.id, topic.generation)
        live_ms = topic.first_live_ms(self._clock.deletion_ms())
        noted = written.stored_ms.items()
        times: list[int | None] = [ms for pointer, ms in noted if not fates.is_invalid(pointer)]
        if fates.are_elsewhere:
            times.append(self._elsewhere_ms(start, fates))
            yield Step(PAYLOAD, Reason.RETENTION)
        times.append((yield from self._before_restart_ms(counted, start, live_ms, fates)))
        times.append((yield from self._ahead_ms(counted, start, live_ms, fates, written.end)))
        return min((time for time in times if time is not None), default=None)

    def _elsewhere_ms(self, start: bytes, fates: Fates) -> int | None:
        """Return the start of the oldest transaction that may be in progress, by any clock."""
        young = payload_prefix(start, max(0, fates.ended_up_to + 1))
        key = first_key(self._store, PAYLOAD, young, after_prefix(start))
        if key is None:
            return None
        began_ms = payload_pointer_of(key) // WRITE_POINTERS_PER_MS
        return max(0, began_ms - self._grace_ms)

    def _before_restart_ms(
        self, counted: CountedMessages, start: bytes, live_ms: int, fates: Fates
    ) -> Generator[Step, None, int | None]:
        pointers = fates.from_before()
        before = counted.stored_before
        counted.stored_before = {p: before[p] for p in pointers if p in before}
        for pointer in pointers:
            if pointer not in counted.stored_before:
                run = payload_prefix(start, pointer)
                counted.stored_before[pointer] = first_stored_ms(self._store, run, live_ms)
                yield Step(PAYLOAD, Reason.RETENTION)
        times = counted.stored_before.values()
        return min((time for time in times if time is not None), default=None)

    def _ahead_ms(
        self, counted: CountedMessages, start: bytes, live_ms: int, fates: Fates, end: bytes
    ) -> Generator[Step, None, int | None]:
        """Read the references that are not counted, each once while counting waits."""
        is_expired = counted.ahead_ms is not None and counted.ahead_ms < live_ms
        if counted.looked_from != counted.next_row or is_expired:
            counted.looked_from = counted.looked_to = counted.next_row
            counted.ahead_ms = None
        is_done = False
        while not is_done:
            at, stop = counted.looked_to, start + end
            if at >= stop:
                break
            with self._store.scan(MESSAGE, at, stop, limit=self._rows_max) as scanned:
                rows = [(key, value[:POINTER_END]) for key, value in scanned]
            is_done = len(rows) < self._rows_max
            yield Step(MESSAGE, Reason.RETENTION, scanned=max(1, len(rows)))
            for key, value in rows:
                if value[0] == REFERENCE_KIND:
                    pointer = write_pointer_of(value)
                    if pointer > PLAIN and not fates.is_invalid(pointer):
                        run = payload_prefix(start, pointer)
                        times = (counted.ahead_ms, first_stored_ms(self._store, run, live_ms))
                        counted.ahead_ms = min((ms for ms in times if ms is not None), default=None)
                        yield Step(PAYLOAD, Reason.RETENTION)
                counted.looked_to = key + b"\x00"
        return counted.ahead_ms
