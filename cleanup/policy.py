"""Decides about a row: it is kept or dropped, or its write pointer is inverted. Pure.

The rules are those of CDAP's coprocessors, with DESIGN section 6. The runners do not ask row by row
where the order of the keys answers for a whole range; then they take the range from the same
functions (`is_dead`, `TopicMetadata.first_live_ms`), and the tests hold what they leave to
`message` and `payload`. What a reader could still be given is never dropped: a reader asks
`TopicMetadata.first_live_ms` too (`tms.messaging.reader`), and has no key of a dead generation.
What else goes from a compact topic is decided in `cleanup.compaction`.
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
    """Kept with the sign of its write pointer inverted, as a rollback leaves it."""


def is_dead(generation: int, current: int) -> bool:
    """Whether no reader may see rows of `generation`, if the topic's row has `current`.

    `current` is negative where the topic is deleted.
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

    `topic` is what its metadata says, None where that is not known; `write_pointer` is as stored,
    `PLAIN` where it has none; `invalids` is the invalid list; `is_sealed`, whether the topic's seal
    hides the row's key.
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

    Whose transaction it was does not matter: what an invalid one stored is found by nobody.
    """
    if topic is None:
        return Decision.KEEP
    if is_dead(generation, topic.generation):
        return Decision.DROP
    is_expired = write_timestamp_ms < topic.first_live_ms(now_ms)
    return Decision.DROP if is_expired and generation == topic.generation else Decision.KEEP


def log_row(number: int, replayed_from: int) -> Decision:
    """Decide on a row of the log of transactions.

    `replayed_from` is the number of the oldest snapshot that is kept, from where on a start may
    have to replay.
    """
    return Decision.DROP if number < replayed_from else Decision.KEEP
