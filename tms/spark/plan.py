"""Plans the ranges of topics to read, and divides the work. It uses no Spark and no server.

Guarantees:
1. The ranges of a plan make up exactly what is between start and end, each id once, in order: by
   topic, then by id. Partition i holds what comes before partition i + 1.
2. Nothing is left out silently: what a start claims to be there and is not is a `Loss`, which the
   caller raises or logs, as `failOnDataLoss` says.
3. Shares of a limit never add up to more than it, unless each of more topics than that has one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tms.core.values.message import FIRST_ID
from tms.spark.offsets import Offset, Offsets, Standings

PARTITION_BYTES = 32 * 1024 * 1024
"""The bytes that one task reads by default: a few seconds' work."""
PARTITION_BYTES_MIN = 256 * 1024
"""Less is not worth a task of its own, unless `minPartitions` says so."""


class Range(NamedTuple):
    """A range of ids of one topic: what one partition reads of it, in full."""

    topic: str
    start: bytes
    end: bytes
    """Exclusive."""
    generation: int | None
    claimed: bool
    """Whether all of it was there when it was planned: then what has gone since is a loss."""


class Loss(NamedTuple):
    """Messages that cannot be read any more."""

    topic: str
    reason: str
    start: Offset
    """Where the loss begins."""
    now: bytes | None
    """Where what is left begins; None where the topic is gone."""


class Span(NamedTuple):
    """Part of a topic, with about how many bytes it has."""

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
    """Return what is between `start` and `end`, and what of it is gone.

    A topic that `start` does not name is read from its oldest message on. One that `end` does not
    name, or that ends where it starts, is not read.
    """
    ranges: list[Range] = []
    losses: list[Loss] = []
    for topic in sorted(end):
        found = _planned(topic, start.get(topic), end[topic], standings)
        ranges += (one for one in found if isinstance(one, Range) and one.start < one.end)
        losses += (one for one in found if isinstance(one, Loss))
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
    found: list[Range | Loss] = []
    if _is_another(first.generation, end.generation):
        if first.position != FIRST_ID:
            found.append(Loss(topic, "the topic was created again", first, standing.start))
        first = Offset(FIRST_ID, end.generation)
    if _is_another(end.generation, standing.generation):
        return [*found, Loss(topic, "the topic was created again", first, standing.start)]
    claimed = first.position != FIRST_ID
    if claimed and first.position < min(standing.kept_from, end.position):
        found.append(Loss(topic, "messages have expired", first, standing.start))
    begin = max(first.position, standing.start)
    return [*found, Range(topic, begin, end.position, end.generation, claimed)]


def _is_another(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and before != now


def latest(start: Offsets, standings: Standings) -> tuple[dict[str, Offset], list[Loss]]:
    """Return where a stream that has come to `start` may read to, and what it has lost on the way.

    Topics that have come since are in it. An offset never goes back within a generation.
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
    """Return where a stream stands in topics that are not chosen any more, and that they are lost.

    The offsets are kept, so that a topic that comes back is read on from there.
    """
    kept = {topic: start[topic] for topic in sorted(start.keys() - set(chosen))}
    return kept, [Loss(topic, "the topic is not read any more", at, None)
                  for topic, at in kept.items()]  # fmt: skip


def shares(limit: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how much of `limit` each topic may have, in proportion to what it has, at least 1."""
    total = sum(sizes.values())
    return {
        topic: max(1, limit * size // total if total else limit // len(sizes))
        for topic, size in sizes.items()
    }


def parts_wanted(size: int, least: int | None, cores: int) -> int:
    """Return into how many partitions `size` bytes are best split; 0 stands for an unknown size."""
    if size == 0:
        return least or cores
    if least is not None:
        return max(least, -(-size // PARTITION_BYTES))
    by_size = -(-size // PARTITION_BYTES)
    worth_it = -(-size // PARTITION_BYTES_MIN)
    return max(1, min(max(cores, by_size), worth_it))


def packed(spans: Iterable[Span], parts: int) -> list[list[Span]]:
    """Return `spans`, in order, in at most `parts` runs of about equal size, none of them empty.

    Neighbours in a run are joined. A span is not split: who wants equal runs gives small ones.
    """
    given = list(spans)
    total = sum(span.size for span in given)
    runs: list[list[Span]] = []
    before = 0
    for number, span in enumerate(given):
        middle = before + span.size / 2
        wanted = int(middle * parts / total) if total else number * parts // len(given)
        before += span.size
        if not runs or (wanted > len(runs) - 1 and len(runs) < parts):
            runs.append([])
        run = runs[-1]
        if run and run[-1].topic == span.topic and run[-1].end == span.start:
            run[-1] = run[-1]._replace(end=span.end, size=run[-1].size + span.size)
        else:
            run.append(span)
    return runs
