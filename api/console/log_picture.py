"""The picture of a log: a timeline, its readers, and where readers of committed messages stop."""

from collections.abc import Sequence
from typing import NamedTuple

from api.console.topic_readers import TopicReader
from tms.core.values.message import published_ms
from tms.core.values.ranges import TopicRange

_LEFT, _WIDTH = 20, 960
_ROW = 22
_READERS_MAX = 12
"""The number of readers that are drawn: those furthest behind."""


class ReaderMark(NamedTuple):
    """A reader on the line."""

    x: int
    y: int
    name: str
    is_right: bool
    """Whether its name is to the left, because there is no room to the right."""


class LogPicture(NamedTuple):
    """The picture; its width is 1,000 units."""

    height: int
    start_ms: int
    end_ms: int
    marks: Sequence[ReaderMark]
    stop_x: int | None
    """Where readers of committed messages stop; None if no transaction stops them."""
    left_out: int
    """How many readers are not drawn."""


def picture_of(
    log: TopicRange, last_ms: int, readers: Sequence[TopicReader], stop: bytes | None
) -> LogPicture | None:
    """Return the picture of a log that ends at `last_ms`, or None if the log is empty.

    Only the first of `readers` are drawn.
    """
    if log.start >= log.end:
        return None
    first_ms = published_ms(log.start)
    last_ms = max(last_ms, first_ms)

    def x_of(position: bytes | None) -> int:
        at_ms = first_ms if position is None else published_ms(position)
        share = (at_ms - first_ms) / (last_ms - first_ms or 1)
        is_at_end = position is not None and position >= log.end
        return _LEFT + round(_WIDTH * (1.0 if is_at_end else min(max(share, 0.0), 1.0)))

    marks = []
    for number, reader in enumerate(readers[:_READERS_MAX]):
        x = x_of(reader.position)
        marks.append(ReaderMark(x, 50 + _ROW * number, reader.name, x > _LEFT + _WIDTH // 2))
    height = 60 + _ROW * len(marks)
    stop_x = None if stop is None else x_of(stop)
    return LogPicture(height, first_ms, last_ms, marks, stop_x, len(readers) - len(marks))
