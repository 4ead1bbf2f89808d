"""A deadline for all calls to servers within a block, in one task or thread.

It is a context variable, so it follows a call into the event loop of the client for threads, and
two callers never share one. Work that several callers share must not start under the deadline of
one of them (`without_deadline`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from math import inf
from time import monotonic
from typing import TypeVar

from tms.core.errors import OutcomeUnknown, ServerUnreachable
from tms.core.text.durations import Duration, seconds_of

_end_s: ContextVar[float] = ContextVar("tms.deadline", default=inf)
"""In seconds of `monotonic`."""

_NO_BOUND = nullcontext()

Result = TypeVar("Result")


def deadline(seconds: Duration | None) -> AbstractContextManager[None]:
    """Limit the total time of all calls in the block, in seconds or as `"2s"`; None for no limit.

        with tms.deadline(2):
            topic.publish(b"…")

    Use `with` in a coroutine, too. If blocks are nested, the earlier end counts. A call that is not
    done by then raises what `publish(…, timeout_s=2)` raises. Calls to a store in this process have
    no deadline.
    """
    return _NO_BOUND if seconds is None else until(monotonic() + seconds_of(seconds))


@contextmanager
def until(end_s: float) -> Iterator[None]:
    """Set the end itself, in seconds of `monotonic`, unless there is an earlier one."""
    with _set(min(_end_s.get(), end_s)):
        yield


@contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """Leave at least this time to clean-up, even if the deadline has passed."""
    with _set(max(_end_s.get(), monotonic() + seconds)):
        yield


@contextmanager
def _set(end_s: float) -> Iterator[None]:
    token = _end_s.set(end_s)
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator that another task closes
            _end_s.reset(token)


def without_deadline() -> Context:
    """Return the present context without a deadline, for a task that serves several callers."""
    context = copy_context()
    context.run(_end_s.set, inf)
    return context


def seconds_left() -> float:
    """Return the seconds until the deadline: infinite without one, negative after it."""
    end_s = _end_s.get()
    return end_s if end_s == inf else end_s - monotonic()


async def in_time(
    call: Callable[[], Awaitable[Result]],
    was_sent: Callable[[], bool] = lambda: True,
    **where: str,
) -> Result:
    """Return the result of a request; after the deadline it is not sent.

    At the deadline it raises `OutcomeUnknown`, or `ServerUnreachable` if nothing was sent.
    """
    left_s = seconds_left()
    if left_s == inf:
        return await call()
    if left_s > 0:
        try:
            async with asyncio.timeout(left_s) as timeout:
                return await call()
        except TimeoutError:
            if not timeout.expired():
                raise
    if was_sent():
        raise OutcomeUnknown(**where, reason="no answer before the deadline")
    raise ServerUnreachable(**where, reason="nothing was sent before the deadline")
