"""The position of a reader of topics: one offset per topic, as Spark stores them in checkpoints.

An offset is the position of the next message to read, with the topic's generation. Its text is
readable and comparable, and accepted as `startingOffsets`:

    {"orders": "0000019a8b7c6d5e0001000000000000000000000@3", "payments": "earliest"}

    offset := 40 hexadecimal digits [ "@" generation ] | "earliest" | "latest"

DO NOT CHANGE: it is in checkpoints. The smallest id of all means the oldest message, whatever the
topic has lost by then; any other id claims that everything after it still exists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.core.values.message import FIRST_ID, first_id_at, parse_id

_OFFSET = re.compile(r"([0-9A-Fa-f]{40})(?:@([1-9][0-9]{0,9}))?", re.ASCII)


class Offset(NamedTuple):
    """A position in one topic."""

    position: bytes
    """The smallest id that is still to be read; `FIRST_ID` for the oldest message."""
    generation: int | None = None
    """The topic's generation; None if the position was given without one."""

    def __str__(self) -> str:
        """Return the text that `parse_offset` takes."""
        if self.generation is None:
            return self.position.hex()
        return f"{self.position.hex()}@{self.generation}"


class Edge(StrEnum):
    """An end of a topic, whatever its position at the time."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Since(NamedTuple):
    """The messages published from a time on; it makes no claim about earlier ones."""

    position: bytes


Bound = Offset | Since | Edge
Offsets = Mapping[str, Offset]


class Standing(NamedTuple):
    """The state of a topic, from the server."""

    start: bytes
    """The first position within the topic's time to live."""
    end: bytes
    """Exclusive; nothing before it changes, except by expiry."""
    generation: int
    expired_before: bytes = FIRST_ID
    """All messages before this id have expired, and none after it."""
    kept_from: bytes = FIRST_ID
    """All messages from this id on still exist."""


Standings = Mapping[str, Standing | None]
"""By topic; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """Where to start, or end, reading each topic."""

    otherwise: Bound
    """The bound of topics without one of their own."""
    of_topic: Mapping[str, Bound]

    def of(self, topic: str) -> Bound:
        """Return the bound of `topic`."""
        return self.of_topic.get(topic, self.otherwise)


def parse_offset(text: str) -> Bound:
    """Return the offset in a text. Raises `InvalidRequest` (invalid_message_id)."""
    if text in (Edge.EARLIEST, Edge.LATEST):
        return Edge(text)
    parts = _OFFSET.fullmatch(text)
    if parts is None:
        raise InvalidRequest("invalid_message_id", id=shortened(text, 80))
    return Offset(parse_id(parts[1]), int(parts[2]) if parts[2] else None)


def written(offsets: Offsets) -> dict[str, str]:
    """Return offsets in Spark's stored form, sorted by topic."""
    return {topic: str(offsets[topic]) for topic in sorted(offsets)}


def read_back(texts: Mapping[str, str]) -> dict[str, Offset]:
    """Return offsets from their stored form. Raises `InvalidRequest` (invalid_message_id)."""
    return {topic: _offset_of(text) for topic, text in texts.items()}


def _offset_of(text: str) -> Offset:
    bound = parse_offset(text)
    if not isinstance(bound, Offset):
        raise InvalidRequest("invalid_message_id", id=text)
    return bound


def at_time(time_ms: int) -> Since:
    """Return the bound of messages published at `time_ms`, since 1970, or later."""
    return Since(first_id_at(time_ms))


def start_of(bound: Bound, standing: Standing) -> Offset:
    """Return the offset at which reading a topic from `bound` starts."""
    match bound:
        case Edge.EARLIEST:
            return Offset(FIRST_ID, standing.generation)
        case Edge.LATEST:
            return Offset(standing.end, standing.generation)
        case Since(position):
            is_all = position <= standing.start
            return Offset(FIRST_ID if is_all else position, standing.generation)
        case Offset(position, generation):
            return Offset(position, generation or standing.generation)


def end_of(bound: Bound, standing: Standing) -> Offset:
    """Return the offset, exclusive, at which reading a topic up to `bound` ends.

    It is never after the topic's stable end, beyond which messages may still change.
    """
    match bound:
        case Since(position):
            return Offset(min(position, standing.end), standing.generation)
        case Offset(position, generation):
            return Offset(min(position, standing.end), generation or standing.generation)
        case _:
            return Offset(standing.end, standing.generation)
