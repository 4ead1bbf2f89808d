"""An event loop in virtual time: if nothing is ready, it skips to the next thing that is due.

Calls for its executor run in the loop itself. Code with threads of its own holds time while they
work (`hold_time_while`); otherwise a timeout would pass before a thread answers.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, TypeVar

from tms.core.runtime.clock import Clock

T = TypeVar("T")
_ANSWER_S_MAX = 120.0


class _Hurried(selectors.DefaultSelector):
    """Does not wait; adds the time that it would have waited to the virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.holds: list[Callable[[], object]] = []

    def select(self, timeout: float | None = None) -> Any:
        if timeout != 0 and any(works() for works in self.holds):
            answers = super().select(_ANSWER_S_MAX)
            assert answers, "time was up: no thread has answered"
            return answers
        assert timeout is not None, "nothing is due any more, and nothing can come"
        self.now_s += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only while it has nothing to do."""

    def __init__(self) -> None:
        self._hurried = _Hurried()
        super().__init__(self._hurried)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return the seconds since the loop's start."""
        return self._hurried.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass at once, for code that would block."""
        self._hurried.now_s += seconds

    def hold_time_while(self, works: Callable[[], object]) -> None:
        """Let no time pass while `works` returns a true value: threads will wake this loop."""
        self._hurried.holds.append(works)

    def run_in_executor(  # type: ignore[override]
        self, _: Any, call: Callable[..., T], *arguments: Any
    ) -> "asyncio.Future[T]":
        """Make a call now."""
        answer: asyncio.Future[T] = self.create_future()
        try:
            answer.set_result(call(*arguments))
        except Exception as error:
            answer.set_exception(error)
        return answer


VIRTUAL = ("asyncio", {"loop_factory": VirtualLoop})
"""The value of a fixture `anyio_backend` for tests that run on such a loop."""


class VirtualClock(Clock):
    """The clock of a machine that runs on such a loop."""

    def __init__(self, loop: VirtualLoop, start_ms: int = 1_800_000_000_000) -> None:
        self._loop = loop
        self._start_ms = start_ms

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self._start_ms + self.steady_ms()

    def steady_ms(self) -> int:
        """Return the milliseconds since the loop's start."""
        return round(self._loop.time() * 1000)

    @property
    def boot_id(self) -> str:
        """Return the id of this boot of this machine."""
        return "virtual"
