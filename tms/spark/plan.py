"""Plans the ranges of topics to read, and divides the work. It uses neither Spark nor a server.

Guarantees:
1. The ranges of a plan cover exactly the messages between start and end, each id once, ordered by
   topic, then by id. Partition i comes before partition i + 1.
2. Nothing is left out silently: messages that a start claims to exist and that do not are a `Loss`,
   which the caller raises or logs, as `failOnDataLoss` says.
3. Shares of a limit never exceed it in sum, unless there are more topics than that, with one each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tms.core.values.message import FIRST_ID
from tms.spark.offsets import Offset, Offsets, Standings

PARTITION_BYTES = 32 * 1024 * 1024
"""The bytes that one task reads by default: a few seconds' work."""
PARTITION_BYTES_MIN = 256 * 1024
"""Smaller tasks are not worth it, unless `minPartitions` says so."""


class Range(NamedTuple):
    """A range of ids of one topic that one partition reads completely."""

    topic: str
    start: bytes
    end: bytes
    """Exclusive."""
    generation: int | None
    claimed: bool
    """Whether it was complete when it was planned, so that later gaps are losses."""


class Loss(NamedTuple):
    """Messages that can no longer be read."""

    topic: str
    reason: str
    start: Offset
    """The start of the loss."""
    now: bytes | None
    """The start of what remains; None if the topic was deleted."""


class Span(NamedTuple):
    """A part of a topic, with its approximate size in bytes."""

    topic: str
    start: bytes
    end: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges to read."""

    ranges: Sequence[Range]
    losses: Sequence[Loss]


def plan(start: Offsets, end: Offsets, standings: Standings) -> Plan:
    """Return the ranges between `start` and `end`, and the losses.

    A topic that is not in `start` is read from its oldest message on. One that is not in `end`, or
    that ends where it starts, is not read.
    """
    ranges: list[Range] = []
    losses: list[Loss] = []
    for topic in sorted(end):
        planned = _planned(topic, start.get(topic), end[topic], standings)
        ranges += (one for one in planned if isinstance(one, Range) and one.start < one.end)
        losses += (one for one in planned if isinstance(one, Loss))
    return Plan(ranges, losses)


def _planned(
    topic: str, start: Offset | None, end: Offset, standings: Standings
) -> list[Range | Loss]:
    first = Offset(FIRST_ID, end.generation) if start is None else start
    if first == end:
        return []
    standing = standings.get(topic)
    if standing is None:
        return [Loss(topic, "the topic was deleted", first, None)]
    planned: list[Range | Loss] = []
    if _is_another(first.generation, end.generation):
        if first.position != FIRST_ID:
            planned.append(Loss(topic, "the topic was created again", first, standing.start))
        first = Offset(FIRST_ID, end.generation)
    if _is_another(end.generation, standing.generation):
        return [*planned, Loss(topic, "the topic was created again", first, standing.start)]
    claimed = first.position != FIRST_ID
    if claimed and first.position < min(standing.kept_from, end.position):
        planned.append(Loss(topic, "messages have expired", first, standing.start))
    begin = max(first.position, standing.start)
    return [*planned, Range(topic, begin, end.position, end.generation, claimed)]


def _is_another(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and before != now


def latest(start: Offsets, standings: Standings) -> tuple[dict[str, Offset], list[Loss]]:
    """Return how far a stream at `start` may read, and what it has lost.

    New topics are included. An offset never goes back within a generation.
    """
    ends: dict[str, Offset] = {}
    losses: list[Loss] = []
    for topic, before in start.items():
        if topic in standings and standings[topic] is None:
            losses.append(Loss(topic, "the topic was deleted", before, None))
    for topic, standing in standings.items():
        if standing is None:
            continue
        came_to = start.get(topic, Offset(FIRST_ID, standing.generation))
        end = standing.end
        if _is_another(came_to.generation, standing.generation):
            losses.append(Loss(topic, "the topic was created again", came_to, standing.start))
        else:
            if FIRST_ID < came_to.position < standing.kept_from:
                losses.append(Loss(topic, "messages have expired", came_to, standing.start))
            end = max(end, came_to.position)
        ends[topic] = Offset(end, standing.generation)
    return ends, losses


def left(start: Offsets, chosen: Iterable[str]) -> tuple[dict[str, Offset], list[Loss]]:
    """Return a stream's offsets of topics that are no longer chosen, and these topics as losses.

    The offsets are kept, so reading continues there if a topic comes back.
    """
    kept = {topic: start[topic] for topic in sorted(start.keys() - set(chosen))}
    return kept, [Loss(topic, "the topic is not read any more", at, None)
                  for topic, at in kept.items()]  # fmt: skip


def shares(limit: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return each topic's share of `limit`, in proportion to its size, at least 1."""
    total = sum(sizes.values())
    return {
        topic: max(1, limit * size // total if total else limit // len(sizes))
        for topic, size in sizes.items()
    }


def parts_for(size: int, least: int | None, cores: int) -> int:
    """Return into how many partitions to split `size` bytes; 0 means an unknown size."""
    if size == 0:
        return least or cores
    if least is not None:
        return max(least, -(-size // PARTITION_BYTES))
    by_size = -(-size // PARTITION_BYTES)
    worth_it = -(-size // PARTITION_BYTES_MIN)
    return max(1, min(max(cores, by_size), worth_it))


def packed(spans: Iterable[Span], parts: int) -> list[list[Span]]:
    """Return `spans`, in order, in at most `parts` nonempty runs of about equal size.

    Neighbours in a run are joined. Spans are not split, so equal runs need small spans.
    """
    all_spans = list(spans)
    total = sum(span.size for span in all_spans)
    runs: list[list[Span]] = []
    before = 0
    for number, span in enumerate(all_spans):
        middle = before + span.size / 2
        target = int(middle * parts / total) if total else number * parts // len(all_spans)
        before += span.size
        if not runs or (target > len(runs) - 1 and len(runs) < parts):
            runs.append([])
        run = runs[-1]
        if run and run[-1].topic == span.topic and run[-1].end == span.start:
            run[-1] = run[-1]._replace(end=span.end, size=run[-1].size + span.size)
        else:
            run.append(span)
    return runs
