"""Measures the longest step of the event loop: how long one piece of work has blocked all others.

uvloop does not report its steps, so a timer that is due every 10 ms measures how late it is. A step
of L seconds is measured as L - 10 ms to L, and callbacks that were ready together are one step.
That costs a request nothing, and an idle server less than a hundredth of a core. Collections of old
garbage by `gc_schedule` are measured separately.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

_PERIOD_S: Final = 0.01
_WINDOW_S: Final = 60.0


class LoopSteps:
    """The longest step and the longest collection of the last one to two minutes, in seconds."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        """Measure by `now`, in seconds; the period of the timer is real time."""
        self._now = now
        self._began_s = 0.0
        """When the timer was last set."""
        self._window_began_s = 0.0
        self._step_s = self._step_before_s = 0.0
        """In this minute, and in the previous one."""
        self._collection_s = self._collection_before_s = 0.0

    @property
    def longest_step_s(self) -> float:
        """The longest step, without collections of old garbage."""
        return max(self._step_s, self._step_before_s)

    @property
    def longest_collection_s(self) -> float:
        """The longest collection of old garbage."""
        return max(self._collection_s, self._collection_before_s)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the steps of the running event loop within the context."""
        self._began_s = self._window_began_s = self._now()
        self._set_timer(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._timer.cancel()

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_PERIOD_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = self._now()
        self._step_s = max(self._step_s, now_s - self._began_s - _PERIOD_S)
        self._began_s = now_s
        if now_s - self._window_began_s >= _WINDOW_S:
            self._window_began_s = now_s
            self._step_before_s, self._step_s = self._step_s, 0.0
            self._collection_before_s, self._collection_s = self._collection_s, 0.0
        self._set_timer(loop)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Measure a collection separately; its step counts without it."""
        began_s = self._now()
        try:
            yield
        finally:
            took_s = self._now() - began_s
            self._began_s += took_s
            self._collection_s = max(self._collection_s, took_s)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        yield GaugeMetricFamily(
            "tms_loop_longest_step_seconds",
            "The longest step of the event loop in the last one to two minutes, at most 10 ms less "
            "than it took, without collections of old garbage.",
            self.longest_step_s,
        )
        yield GaugeMetricFamily(
            "tms_longest_collection_seconds",
            "The longest collection of old garbage in the last one to two minutes.",
            self.longest_collection_s,
        )


OF_PROCESS: Final = LoopSteps()
"""The steps of the loop that a server's process runs."""
