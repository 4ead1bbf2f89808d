"""Deletes expired rows of one topic, and rows of dead generations.

No scan is made without need:
- Message rows are in the order of time, so the expired ones are a range at the start of a topic.
- Payload rows are in the order of write pointers, and under each in the order of time, so the
  expired rows of one are a range too. A pointer is a number, not a time: clocks step, so rows under
  a smaller pointer may be younger, but mostly they are older. So most passes read only the pointers
  that would be older than the TTL if they were times, and some read all.
- Each function returns the time until which no more rows can expire, so passes skip the topic.

Sealed rows are ranges too, recorded in the topic's row.

Two kinds of rows that no reader sees stay, because new keys continue from the table and must never
go back: the greatest Message row of a topic, whatever its generation, and the greatest Payload row
of a pointer that may still get rows.
"""

from collections.abc import Callable, Generator, Sequence

from cleanup.ranges import Drop, Reason, RowRange, Step, first_key, last_key
from tables.keys import (
    FIRST_GENERATION,
    after_prefix,
    message_key_of,
    payload_key_of,
    payload_pointer_of,
    payload_prefix,
    prefix,
)
from tables.sealing.seal import Seal
from tables.store import GROUP, MESSAGE, PAYLOAD, SUBSCRIPTION, Store, tables_with
from tms.core.limits import WRITE_POINTERS_PER_MS
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata

ALL_PAYLOADS_MS = 3_600_000
"""How often all pointers are read, in steady time."""
CHECKED_AGAIN_MS = 60_000
"""After this time, a transaction that was in progress may have ended."""


def expire_messages(
    store: Store, topic: TopicMetadata, now_ms: int, drop: Drop
) -> Generator[Step, None, int]:
    """Drop expired messages of a topic; return when more may expire, in ms since 1970."""
    start = prefix(topic.id, topic.generation)
    live = start + KEY.pack(topic.first_live_ms(now_ms), 0)
    oldest = first_key(store, MESSAGE, live, after_prefix(start))
    stop = live if oldest is not None else last_key(store, MESSAGE, start, live)
    yield Step(MESSAGE, Reason.TTL)
    if stop is not None:
        yield from drop(MESSAGE, [RowRange(start, stop)], reason=Reason.TTL)
    return topic.dies_ms(now_ms if oldest is None else written_ms(oldest))


def expire_payloads(
    store: Store,
    topic: TopicMetadata,
    now_ms: int,
    ended_up_to: Callable[[], int],
    *,
    drop: Drop,
    looks_at_all: bool,
) -> Generator[Step, None, int]:
    """Drop expired payloads of a topic; return when more may expire, in ms since 1970.

    Up to the pointer that `ended_up_to` returns, no transaction writes any more. Reads all
    pointers, or only those that seem old enough.
    """
    start = prefix(topic.id, topic.generation)
    at, stop = start, after_prefix(start)
    live_ms = topic.first_live_ms(now_ms)
    due_ms = topic.dies_ms(now_ms)
    while (key := first_key(store, PAYLOAD, at, stop)) is not None:
        yield Step(PAYLOAD, Reason.TTL)
        pointer = payload_pointer_of(key)
        started_ms = pointer // WRITE_POINTERS_PER_MS
        if started_ms >= live_ms and not looks_at_all:
            return min(due_ms, topic.dies_ms(started_ms))
        rows = payload_prefix(start, pointer)
        at = after_prefix(rows)
        live = rows + KEY.pack(live_ms, 0)
        oldest = first_key(store, PAYLOAD, live, at)
        end: bytes | None = live
        if oldest is not None:
            due_ms = min(due_ms, topic.dies_ms(stored_ms(oldest)))
        elif pointer > ended_up_to():
            end = last_key(store, PAYLOAD, rows, live)
            due_ms = min(due_ms, now_ms + CHECKED_AGAIN_MS)
        if end is not None:
            yield from drop(PAYLOAD, [RowRange(rows, end)], reason=Reason.TTL)
    return due_ms


def drop_dead_generations(
    store: Store, topics: Sequence[TopicMetadata], drop: Drop
) -> Generator[Step, None, list[RowRange]]:
    """Drop all rows of dead generations. The topics are in the order of their rows.

    Return the range of each topic: the greatest row of the topic is kept. Rows of a topic that is
    created again in the meantime are of another generation.
    """
    dead = [_dead_rows(topic) for topic in topics]
    if all(rows.start >= rows.stop for rows in dead):
        return dead
    # Groups after subscriptions, so that no group exists with missing rows.
    there = tables_with(store.features())
    for table in (each for each in (PAYLOAD, SUBSCRIPTION, GROUP, MESSAGE) if each in there):
        yield Step(table, Reason.GENERATION)
        is_message = table == MESSAGE
        yield from drop(table, dead, reason=Reason.GENERATION, keeps_greatest=is_message)
    return dead


def _dead_rows(topic: TopicMetadata) -> RowRange:
    start = prefix(topic.id, FIRST_GENERATION)
    current = prefix(topic.id, abs(topic.generation))
    end = after_prefix(current)
    return RowRange(start, current if topic.exists else end, end)


def drop_sealed(topic: TopicMetadata, seal: Seal, drop: Drop) -> Generator[Step, None, None]:
    """Drop the rows that a topic's seal hides."""
    start = prefix(topic.id, abs(topic.generation))
    for hidden in seal.hidden:
        yield Step(MESSAGE, Reason.SEALED)
        rows = RowRange(start + hidden.start, start + hidden.stop)
        yield from drop(MESSAGE, [rows], reason=Reason.SEALED)


def written_ms(key: bytes) -> int:
    """Return the time in the key of a Message row, in milliseconds since 1970."""
    return int(KEY.unpack(message_key_of(key))[0])


def stored_ms(key: bytes) -> int:
    """Return the time in the key of a Payload row, in milliseconds since 1970."""
    return int(KEY.unpack(payload_key_of(key))[0])
