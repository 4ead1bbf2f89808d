"""How far a stream is behind its topics. It does not use Spark.

PySpark's Python sources cannot add metrics to `StreamingQueryProgress` (4.2, 4.3), so this is a
separate call, with the offset in the query's progress.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from tms.core.values.message import published_ms
from tms.spark.offsets import Offset, read_back
from tms.spark.options import stream_read
from tms.spark.plan import plan
from tms.spark.server import SparkServer

COUNTED_MAX = 10_000


class StreamLag(NamedTuple):
    """How far a stream is behind one topic."""

    messages: int
    """How many messages it still has to read, counted up to `COUNTED_MAX`."""
    seconds: float
    """The age of the oldest of them, by the server's clock; 0 if there is none."""
    is_at_least: bool
    """Whether there may be more messages."""


def lag(end_offset: str, options: Mapping[str, str]) -> dict[str, StreamLag]:
    """Return how far each topic extends beyond an offset, the `endOffset` of a progress.

    `options` are those of the stream's reader. A deleted topic is left out. Raises `InvalidRequest`
    for wrong options, `Unavailable`, and `OutcomeUnknown`.
    """
    reading, begin = stream_read(options), read_back(json.loads(end_offset))
    with SparkServer(reading.connection) as server:
        standings, time_ms = server.standings(begin, reading.isolation)
        ends = {
            topic: Offset(standing.end, standing.generation)
            for topic, standing in standings.items()
            if standing is not None
        }
        lags = dict.fromkeys(ends, StreamLag(0, 0.0, is_at_least=False))
        ranges = plan({topic: begin[topic] for topic in ends}, ends, standings).ranges
        firsts = server.first(ranges, reading.isolation, 1)
        all_of = server.first(ranges, reading.isolation, COUNTED_MAX)
        for one, first, counted in zip(ranges, firsts, all_of, strict=True):
            if not first.messages:
                continue
            age_ms = time_ms - published_ms(first.end)
            is_at_least = counted.messages >= COUNTED_MAX
            lags[one.topic] = StreamLag(counted.messages, max(0, age_ms) / 1000, is_at_least)
        return lags
