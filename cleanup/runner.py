"""The thread of cleanup: passes on a period and on demand, in slices with pauses between.

While the server has requests, the thread pauses after each slice, so that publishing keeps its
latency; pauses get shorter the longer a pass is overdue. Otherwise it continues at once. A pass
that fails, because the disk is full (deletes need room too) or the server is stopping, is logged
and repeated after a period. Only `stop` ends the thread.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic, perf_counter
from typing import Protocol

from cleanup.ranges import Reason, Step
from tms.core.errors import Stopping, TmsError
from tms.core.limits import MS_PER_S, Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.repeatable import repeatable
from tms.core.values.cleanup import CleanupPass

_BUSY_S = 0.25
"""The time after a request in which the server counts as busy."""
_PASSES_KEPT = 20

_log = logging.getLogger(__name__)


class Passes(Protocol):
    """Cleans up tables, one pass at a time."""

    def steps(self, *, is_on_demand: bool = False) -> Iterator[Step]:
        """Do one pass, yielding each step when it is done; `is_on_demand`: somebody waits for it.

        Raises `TmsError`.
        """
        ...

    def close(self) -> None:
        """Close what it has opened for itself. No pass follows."""
        ...


@dataclass(slots=True)
class Counts:
    """The work done since the process began."""

    scanned: Counter[Reason] = field(default_factory=Counter)
    dropped: Counter[tuple[str, Reason]] = field(default_factory=Counter)
    """By table."""
    dropped_bytes: int = 0
    inverted: int = 0
    passes: int = 0
    failed_passes: int = 0
    pass_seconds: float = 0.0
    """The total time of all finished passes."""

    def by_reason(self) -> dict[str, int]:
        """Return how many rows were deleted in all tables, by reason."""
        counts: Counter[str] = Counter()
        for (_, reason), count in list(self.dropped.items()):
            counts[reason.value] += count
        return dict(counts)

    def add(self, step: Step) -> None:
        """Count a step."""
        self.scanned[step.reason] += step.scanned
        if step.dropped:
            self.dropped[step.table, step.reason] += step.dropped
            self.dropped_bytes += step.dropped_bytes
        self.inverted += step.inverted


class Runner:
    """Runs passes of one cleaner in a thread of its own."""

    def __init__(
        self, cleaner: Passes, limits: Limits, clock: Clock, activity: Callable[[], int]
    ) -> None:
        """Run by `limits`; `activity` counts the server's requests."""
        self.counts = Counts()
        self.last_passes: Sequence[CleanupPass] = ()
        """The last finished passes, the newest first."""
        self.last_failure: str | None = None
        """Why the last pass failed; None if it did not."""
        self.is_running = False
        self._cleaner = cleaner
        self._period_s = limits.cleanup_period_s
        self._slice_s = limits.cleanup_slice_ms / MS_PER_S
        self._pause_s = limits.cleanup_pause_ms / MS_PER_S
        self._clock = clock
        self._activity = activity
        self._seen_activity = activity()
        self._busy_until = 0.0
        self._changed = Condition()
        self._requested = 0
        """The number of passes requested."""
        self._done = 0
        """The number of requests whose passes have ended."""
        self._stopping = False
        self._thread = Thread(target=self._work, name="tms-cleanup", daemon=True)

    @property
    def last_pass(self) -> CleanupPass | None:
        """The last finished pass."""
        return next(iter(self.last_passes), None)

    def start(self) -> None:
        """Start the thread; the first pass comes after a period, or on demand."""
        self._thread.start()

    def run_pass(self, timeout_s: float) -> bool:
        """Start a pass now; return whether it ended within `timeout_s` seconds. Blocks."""
        with self._changed:
            self._requested += 1
            request = self._requested
            self._changed.notify_all()
            ended = self._changed.wait_for(
                lambda: self._done >= request or self._stopping, timeout_s
            )
            return ended and self._done >= request

    def ask(self) -> None:
        """Start a pass now, without waiting for it."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread after its current step. Blocks until then. Repeatable."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        self._cleaner.close()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._stopping or self._requested > self._done, self._period_s
                )
                if self._stopping:
                    return
                is_on_demand, request = self._requested > self._done, self._requested
                self.is_running = True
            self._pass(is_on_demand=is_on_demand)
            with self._changed:
                self.is_running = False
                self._done = request
                self._changed.notify_all()

    def _pass(self, *, is_on_demand: bool) -> None:
        """Do a pass, and handle its errors."""
        started_ms, started = self._clock.now_ms(), perf_counter()
        rows = 0
        slice_started = started
        try:
            with repeatable():
                for step in self._cleaner.steps(is_on_demand=is_on_demand):
                    self.counts.add(step)
                    rows += step.dropped + step.inverted
                    # A step takes at most a slice, so another one could exceed it.
                    if perf_counter() - slice_started >= self._slice_s / 2:
                        if self._is_stopped_in_pause(perf_counter() - started):
                            return
                        slice_started = perf_counter()
        except Stopping:
            self._stopping = True  # the loop is closed: end the thread
        except TmsError as error:
            self._failed(str(error))
            _log.warning("cleanup is waiting: %s", error)
        except Exception as error:  # the thread must survive any error
            self._failed(str(error))
            _log.exception("cleanup failed")
        else:
            self.last_failure = None
            seconds = perf_counter() - started
            self.counts.passes += 1
            self.counts.pass_seconds += seconds
            ended = CleanupPass(started_ms, seconds, rows)
            self.last_passes = (ended, *self.last_passes[: _PASSES_KEPT - 1])

    def _failed(self, reason: str) -> None:
        self.counts.failed_passes += 1
        self.last_failure = reason

    def _is_stopped_in_pause(self, pass_s: float) -> bool:
        """Let other threads run; return whether to stop.

        If a pass takes longer than a period, pauses get shorter in proportion: the next pass is
        due, and a pass that never finished would fall further and further behind.
        """
        pause_s = self._pause_s * min(1.0, self._period_s / pass_s)
        with self._changed:
            if self._is_busy():
                self._changed.wait_for(lambda: self._stopping, pause_s)
            return self._stopping

    def _is_busy(self) -> bool:
        """Whether the server has requests."""
        activity = self._activity()
        if activity != self._seen_activity:
            self._seen_activity = activity
            self._busy_until = monotonic() + _BUSY_S
        return monotonic() < self._busy_until
