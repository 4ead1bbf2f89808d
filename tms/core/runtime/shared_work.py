"""Work that several callers wait for, and that continues even if nobody waits."""

import asyncio
from typing import Any, TypeVar

Result = TypeVar("Result")


def shared(work: asyncio.Future[Result]) -> asyncio.Future[Result]:
    """Return a future of `work` that a caller may cancel while the work continues.

    If all callers have gone, nobody gets an error of the work, and asyncio does not log it. It is
    not a coroutine, because the error would keep the frame of one, and with it the work.
    """
    work.add_done_callback(_look)
    return asyncio.shield(work)


def _look(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
