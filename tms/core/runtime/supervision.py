"""Tasks that live as long as their server: one that fails is started again.

1. `supervised` starts a task that ends when its work returns, or when it is cancelled, and by
   nothing else. An exception from its work is logged, and after a pause the work is called again.
   The pause grows from 0.1 s to 5 s while the work fails.
2. A `CancelledError` without a call of `cancel` comes from a library below, as with gRPC's closed
   channels. It is handled like any exception.
3. The first failure is logged, with its traceback unless something was unavailable; later ones are
   logged once a minute.
4. `failing` reports which tasks of this process fail, since when and why. A task whose work has run
   for a minute counts as healthy again.

Work that is called again must find what it left undone, so it keeps that outside itself.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tms.core.errors import Unavailable
from tms.core.runtime.clock import SystemClock
from tms.core.text.credentials import without_credentials

PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
WELL_AFTER_MS = 60_000
TOLD_EVERY_MS = 60_000
_REASON_CHARS_MAX = 200

_clock = SystemClock()
_log = logging.getLogger(__name__)


class Failing(NamedTuple):
    """A task that fails."""

    task: str
    since_ms: int
    """When it failed first, in milliseconds since 1970."""
    times: int
    reason: str
    """The latest exception."""


@dataclass(slots=True, eq=False)
class _Failures:
    """The failures of one task; a minute of work without a failure ends them."""

    name: str
    latest: Failing | None = None
    failed_ms: int = 0
    """By the steady clock, like the next one."""
    logged_ms: int = 0

    @property
    def is_well(self) -> bool:
        return self.latest is None or _clock.steady_ms() - self.failed_ms > WELL_AFTER_MS

    def add(self, error: BaseException) -> float:
        """Record a failure; return the seconds until the work is called again."""
        now_ms = _clock.steady_ms()
        since_ms, times = _clock.now_ms(), 0
        if self.latest is not None and not self.is_well:
            since_ms, times = self.latest.since_ms, self.latest.times
        reason = without_credentials(f"{type(error).__name__}: {error}".removesuffix(": "))
        reason = reason[:_REASON_CHARS_MAX]
        self.failed_ms, self.latest = now_ms, Failing(self.name, since_ms, times + 1, reason)
        if times == 0:
            self.logged_ms = now_ms
            traceback = None if isinstance(error, Unavailable) else error
            _log.error("%s failed and is restarted: %s", self.name, reason, exc_info=traceback)
        elif now_ms - self.logged_ms >= TOLD_EVERY_MS:
            self.logged_ms = now_ms
            _log.error("%s has failed %d times: %s", self.name, times + 1, reason)
        return float(min(PAUSE_S * 2 ** min(times, 10), PAUSE_S_MAX))


_failing: set[_Failures] = set()
"""The tasks that failed and still run. Several threads add to it: copy it before iterating."""


def failing() -> Sequence[Failing]:
    """Return the failing supervised tasks of this process by their names."""
    return sorted(each.latest for each in _failing.copy() if each.latest and not each.is_well)


def supervised(
    name: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    until: asyncio.Event | None = None,
) -> "asyncio.Task[None]":
    """Start a task in the running event loop that calls `work` until it returns.

    `name` describes it in the log. Once `until` is set, work that fails is not called again.
    """
    return asyncio.create_task(_run(name, work, until), name=name)


async def _run(
    name: str, work: Callable[[], Coroutine[Any, Any, None]], until: asyncio.Event | None
) -> None:
    failures = _Failures(without_credentials(name))
    try:
        while until is None or not until.is_set():
            try:
                return await work()
            except asyncio.CancelledError as error:
                if is_cancelled():
                    raise
                pause_s = failures.add(error)
            except Exception as error:  # the task must continue after any error
                pause_s = failures.add(error)
            _failing.add(failures)
            await _pause(pause_s, until)
    finally:
        _failing.discard(failures)


async def _pause(seconds: float, until: asyncio.Event | None) -> None:
    if until is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return


def is_cancelled() -> bool:
    """Return whether the running task is being cancelled, and not only a library's call in it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
