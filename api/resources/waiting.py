"""Waits of a request: for its result, until the client leaves or loses its right.

1. A client that leaves gets nothing; a result that arrives at that moment is given back.
2. The caller's right is checked again each `CHECK_S` seconds, and before the result is answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any, TypeVar

from api.http.door.access_control import CHECK_S
from api.http.exchange import ClientGone, Exchange

T = TypeVar("T")


async def wait_for(
    exchange: Exchange,
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    event: asyncio.Future[Any] | None = None,
    at_event: Callable[[], Awaitable[None]] | None = None,
    give_back: Callable[[T], Awaitable[None]] | None = None,
) -> T:
    """Return the result of `work`; call `at_event` if `event` happens in the meantime.

    Raises `ClientGone`, and as `Exchange.check_again`; a result at that moment goes to `give_back`.
    """
    exchange.waited = True
    with nullcontext() if exchange.use is None else exchange.use.polls.held():
        working = asyncio.create_task(work())
        gone = asyncio.create_task(exchange.ended())
        check_s = None if exchange.admission is None else CHECK_S
        awaited: set[asyncio.Future[Any]] = (
            {working, gone} if event is None else {working, gone, event}
        )
        done: set[asyncio.Future[Any]] = set()
        is_given = False
        try:
            while not (working.done() or gone.done()):
                done, _ = await asyncio.wait(
                    awaited, timeout=check_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    await exchange.check_again()
                elif event in done and at_event is not None:
                    awaited.discard(event)
                    await at_event()
            if gone.done():
                raise ClientGone
            await exchange.check_again()
            is_given = True
            return working.result()
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)
            if not (is_given or give_back is None or working.cancelled() or working.exception()):
                await give_back(working.result())
            del working, awaited, done  # an error keeps this frame; it must not keep the task
