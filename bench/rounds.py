"""Measures contenders in turn, round after round, so that noise affects all; takes medians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.servers import Server
from bench.wrk import Run


@dataclass(frozen=True, slots=True)
class Effort:
    """The length and number of measurements, and the amount of data in topics."""

    seconds: float
    rounds: int
    small_messages: int
    large_messages: int
    disk_messages: int
    topics: int
    topics_beyond_memory: int
    """More than `topics_in_memory_max`."""
    whole_topic_bytes: int
    log_edits: int
    cleaned_messages: int
    long_s: float
    """The length of a run that shows whether something grows with time."""


FULL = Effort(
    seconds=3,
    rounds=5,
    small_messages=10_000,
    large_messages=10_000_000,
    disk_messages=5_000_000,
    topics=10_000,
    topics_beyond_memory=100_000,
    whole_topic_bytes=1_000_000_000,
    log_edits=1_000_000,
    cleaned_messages=1_000_000,
    long_s=3_600.0,
)
QUICK = Effort(
    seconds=1,
    rounds=3,
    small_messages=10_000,
    large_messages=500_000,
    disk_messages=500_000,
    topics=1_000,
    topics_beyond_memory=30_000,
    whole_topic_bytes=100_000_000,
    log_edits=100_000,
    cleaned_messages=200_000,
    long_s=60.0,
)

Measure = Callable[[], Run]


@dataclass(frozen=True, slots=True)
class Median:
    """The median of each figure of some runs, and the spread of the runs."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    spread: float
    """(most - least) / median of the requests per second."""


def in_turn(contenders: Mapping[str, Measure], rounds: int) -> dict[str, Median]:
    """Run each contender once per round, and return the medians of each."""
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            runs[name].append(measure())
    return {name: _median_of(of_one) for name, of_one in runs.items()}


def _median_of(runs: Sequence[Run]) -> Median:
    rates = [run.requests_per_s for run in runs]
    middle = median(rates)
    return Median(
        requests_per_s=middle,
        p50_ms=median(run.p50_ms for run in runs),
        p99_ms=median(run.p99_ms for run in runs),
        spread=(max(rates) - min(rates)) / middle,
    )


class CpuMeter:
    """The processor time of a server per request, which a busy machine hardly affects."""

    def __init__(self, server: Server) -> None:
        """Watch `server`."""
        self._server = server
        self._seconds = self._requests = 0.0

    def watch(self, measure: Measure) -> Measure:
        """Return `measure` with its processor time recorded."""

        def watched() -> Run:
            before = self._server.cpu_s()
            run = measure()
            self._seconds += self._server.cpu_s() - before
            self._requests += run.requests_per_s * run.seconds
            return run

        return watched

    @property
    def us_a_request(self) -> float:
        """Microseconds per request, over all recorded runs."""
        return 1e6 * self._seconds / self._requests
