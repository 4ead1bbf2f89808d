"""Takes out of one topic what has expired and what is of dead generations.

Nothing is scanned for nothing:
- Message rows are in the order of time, so what has expired is a range at the start of a topic.
- Payload rows are in the order of write pointers, and under each in the order of time: what has
  expired of one is a range again. A pointer is a number, and not a time: clocks step, so rows under
  a smaller one may be younger. But mostly they are older. So most passes look at the pointers alone
  that would be older than the TTL if they were times, and some look at all.
- Each of these says until when nothing more can expire, so that a pass has no need to look.

What is sealed is in ranges too, which the topic's row has.

Two rows stay that no reader sees, for keys must never go back when they are taken up again from
the table: the greatest Message row of a topic, whatever its generation, and the greatest Payload
row of a pointer that may still be written under.
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
"""How often all pointers are looked at, in steady time."""
ASKED_AGAIN_MS = 60_000
"""After so long, a transaction that was in progress may have ended."""


def expire_messages(
    store: Store, topic: TopicMetadata, now_ms: int, drop: Drop
) -> Generator[Step, None, int]:
    """Drop what has expired of a topic's messages; return when more may, in ms since 1970."""
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
    """Drop what has expired of a topic's payloads; return when more may, in ms since 1970.

    Up to the pointer that `ended_up_to` returns, nothing is written any more. Look at all pointers,
    or at those alone that seem to be old enough.
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
            due_ms = min(due_ms, now_ms + ASKED_AGAIN_MS)
        if end is not None:
            yield from drop(PAYLOAD, [RowRange(rows, end)], reason=Reason.TTL)
    return due_ms


def drop_dead_generations(
    store: Store, topics: Sequence[TopicMetadata], drop: Drop
) -> Generator[Step, None, list[RowRange]]:
    """Drop all rows of generations that are dead, of topics in the order of their rows.

    Return the rows of each: one is kept where it is the greatest of the topic. Rows of a topic that
    is created again meanwhile are of another generation.
    """
    dead = [_dead_rows(topic) for topic in topics]
    if all(rows.start >= rows.stop for rows in dead):
        return dead
    # Groups after subscriptions: so none exists of which rows are missing.
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
    """Drop what a topic's seal hides."""
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
