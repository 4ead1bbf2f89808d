"""Deletes the expired rows of a part of the Payload table, in one scan.

`cleanup.expiry` seeks from write pointer to write pointer, which costs little on local disk; over
the network each seek would cost as much as a thousand rows. So the keys of all rows are read, or of
those under pointers that seem old enough. As there, the greatest row of a pointer that may still
get rows stays; so does the last row of the part, because the next region may have more rows of its
pointer.

The seal of a run (`tables.sealing.runs`) is needed for as long as a row that it hides would live.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from cleanup.expiry import CHECKED_AGAIN_MS, stored_ms
from cleanup.hbase.drops import PartDrop
from cleanup.hbase.parts import RegionPart
from cleanup.ranges import Reason, Step, first_key
from tables.hbase.regions import KEYS_ONLY
from tables.hbase.store import HBaseStore
from tables.keys import after_prefix, payload_pointer_of, payload_prefix, prefix
from tables.sealing.runs import is_seal
from tables.sealing.seal import decode_seal
from tables.store import PAYLOAD, Row
from tms.core.limits import WRITE_POINTERS_PER_MS
from tms.core.values.topic import TopicMetadata


def expire_payloads(
    store: HBaseStore,
    part: RegionPart,
    now_ms: int,
    ended_up_to: int,
    *,
    drop: PartDrop,
    rows_max: int,
    looks_at_all: bool,
) -> Generator[Step, None, int]:
    """Drop the expired rows of a part; return when more may expire, in ms since 1970.

    Up to the pointer `ended_up_to`, no transaction writes any more. `rows_max` rows are read at a
    time. Reads all pointers, or only those that seem old enough. Raises as `drop` does.
    """
    topic = part.remembered.topic
    live_ms = topic.first_live_ms(now_ms)
    start = prefix(topic.id, topic.generation)
    stop = max(part.start, min(part.stop, after_prefix(start)))
    live = payload_prefix(start, live_ms * WRITE_POINTERS_PER_MS)
    due_ms = topic.dies_ms(now_ms)
    oldest = first_key(store, PAYLOAD, min(max(live, part.start), stop), stop)
    if oldest is not None:
        started_ms = payload_pointer_of(oldest) // WRITE_POINTERS_PER_MS
        due_ms = min(due_ms, topic.dies_ms(started_ms))
    at, end = max(start, part.start), stop if looks_at_all else min(live, stop)
    if at >= end:
        return due_ms
    with store.filtered(PAYLOAD, at, end, KEYS_ONLY) as rows:
        decided = _decided(rows, _Times(store, topic, now_ms, live_ms, ended_up_to))
        while some := list(islice(decided, rows_max)):
            due_ms = min([due_ms, *(due for _, due in some if due)])
            dead = [row for row, due in some if not due]
            if dead:
                yield drop.delete(PAYLOAD, dead, len(some), Reason.TTL)
            else:
                yield Step(PAYLOAD, Reason.TTL, len(some))
    return due_ms


@dataclass(frozen=True, slots=True)
class _Times:
    store: HBaseStore
    topic: TopicMetadata
    now_ms: int
    live_ms: int
    ended_up_to: int

    def due_ms(self, row: Row, pointer: int, *, is_greatest: bool) -> int:
        """Return when a row may go; 0 means now."""
        when_ms = self._seal_ms(row[0]) if is_seal(row[0]) else stored_ms(row[0])
        if when_ms >= self.live_ms:
            return self.topic.dies_ms(when_ms)
        if is_greatest and pointer > self.ended_up_to:
            return self.now_ms + CHECKED_AGAIN_MS
        return 0

    def _seal_ms(self, key: bytes) -> int:
        """Return the last millisecond in which a seal hides rows; 0 if it hides none."""
        seal = self.store.get(PAYLOAD, key)
        return 0 if seal is None else max(0, decode_seal(seal).through_ms)


def _decided(rows: Iterable[Row], times: _Times) -> Iterator[tuple[Row, int]]:
    """Yield each row with the time when it may expire; 0 if it may go now."""
    before: tuple[Row, int] | None = None
    for row in rows:
        pointer = payload_pointer_of(row[0])
        if before is not None:
            yield before[0], times.due_ms(*before, is_greatest=pointer != before[1])
        before = row, pointer
    if before is not None:
        yield before[0], times.due_ms(*before, is_greatest=True)
