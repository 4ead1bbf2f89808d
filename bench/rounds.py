"""Measures contenders in turn, round after round, and takes medians: noise then hits all alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

from bench.wrk import Run


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often to measure, and how much to fill topics with."""

    seconds: float
    rounds: int
    small_messages: int
    large_messages: int
    disk_messages: int
    topics: int
    whole_topic_bytes: int


FULL = Effort(
    seconds=3,
    rounds=5,
    small_messages=10_000,
    large_messages=10_000_000,
    disk_messages=5_000_000,
    topics=10_000,
    whole_topic_bytes=1_000_000_000,
)
QUICK = Effort(
    seconds=1,
    rounds=3,
    small_messages=10_000,
    large_messages=500_000,
    disk_messages=500_000,
    topics=1_000,
    whole_topic_bytes=100_000_000,
)

Measure = Callable[[], Run]


def in_turn(contenders: Mapping[str, Measure], rounds: int) -> dict[str, list[Run]]:
    """Return what each contender measured in each round."""
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            runs[name].append(measure())
    return runs


def medians(runs: Sequence[Run]) -> Run:
    """Return the median of each figure."""
    return Run(*(median(getattr(run, field.name) for run in runs) for field in fields(Run)))


def spread(runs: Sequence[Run]) -> float:
    """Return how far requests per second were apart: (most - least) / median."""
    rates = [run.requests_per_s for run in runs]
    return (max(rates) - min(rates)) / median(rates)
