"""Waits for work that others wait for too, or that goes on when nobody waits any more."""

import asyncio
from typing import Any, TypeVar

Result = TypeVar("Result")


def shared(work: asyncio.Future[Result]) -> asyncio.Future[Result]:
    """Return what to wait for: `work` goes on if a caller that waits is cancelled.

    If all callers have gone, an error of the work is nobody's, and asyncio does not log it. It is
    no coroutine, whose frame the error would keep, and with it the work.
    """
    work.add_done_callback(_look)
    return asyncio.shield(work)


def _look(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
