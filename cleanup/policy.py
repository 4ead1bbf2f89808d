"""Decides whether a row is kept or dropped, or its write pointer inverted. Pure.

The rules are those of CDAP's coprocessors, with DESIGN section 6. If the order of the keys decides
for a whole range, the runners do not decide row by row, but take the range from the same functions
(`is_dead`, `TopicMetadata.first_live_ms`); tests compare the result with `message` and `payload`.
No row that a reader could still get is dropped: a reader uses `TopicMetadata.first_live_ms` too
(`tms.messaging.reader`), and has no key of a dead generation. `cleanup.compaction` decides what
else goes from a compact topic.
"""

from collections.abc import Container
from enum import Enum

from tms.core.values.entries import PLAIN
from tms.core.values.topic import TopicMetadata


class Decision(Enum):
    """The decision about a row."""

    KEEP = "keep"
    DROP = "drop"
    INVERT = "invert"
    """Kept, with the sign of its write pointer inverted, as in a rollback."""


def is_dead(generation: int, current: int) -> bool:
    """Whether no reader may see rows of `generation`, if the topic's row has `current`.

    `current` is negative if the topic is deleted.
    """
    return generation < abs(current) or generation == -current


def message(
    topic: TopicMetadata | None,
    generation: int,
    timestamp_ms: int,
    write_pointer: int,
    *,
    invalids: Container[int],
    now_ms: int,
    is_sealed: bool = False,
) -> Decision:
    """Decide on a row of the Message table.

    `topic` is None if its metadata is unknown; `write_pointer` is as stored, `PLAIN` if there is
    none; `invalids` is the invalid list; `is_sealed`: the topic's seal hides the row's key.
    """
    if is_sealed or payload(topic, generation, timestamp_ms, now_ms=now_ms) is Decision.DROP:
        return Decision.DROP
    if topic is not None and write_pointer > PLAIN and write_pointer in invalids:
        return Decision.INVERT
    return Decision.KEEP


def payload(
    topic: TopicMetadata | None, generation: int, write_timestamp_ms: int, *, now_ms: int
) -> Decision:
    """Decide on a row of the Payload table, stored at `write_timestamp_ms`.

    The transaction does not matter, because nobody finds what an invalid one stored.
    """
    if topic is None:
        return Decision.KEEP
    if is_dead(generation, topic.generation):
        return Decision.DROP
    is_expired = write_timestamp_ms < topic.first_live_ms(now_ms)
    return Decision.DROP if is_expired and generation == topic.generation else Decision.KEEP


def log_row(number: int, replayed_from: int) -> Decision:
    """Decide on a row of the log of transactions.

    `replayed_from` is the number of the oldest kept snapshot; a start may replay rows from there
    on.
    """
    return Decision.DROP if number < replayed_from else Decision.KEEP
