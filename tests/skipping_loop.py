"""An event loop on which a test lets time pass at once, with real sockets and threads.

Limits on time keep the lengths that servers have, so a process that is paused breaks none.
"""

import asyncio
from collections.abc import Awaitable

from tests.waiting import turns


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is the real one, and what was skipped."""

    _skipped_s = 0.0

    def time(self) -> float:
        """Return the seconds of a steady clock."""
        return super().time() + self._skipped_s


SKIPPING = ("asyncio", {"loop_factory": SkippingLoop})
"""The value of a fixture `anyio_backend` for tests that run on such a loop."""


def skip(seconds: float) -> None:
    """Let time pass on the loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop), "a real loop would have to wait"
    loop._skipped_s += seconds


async def skip_until(ended: Awaitable[object], seconds: float) -> None:
    """Let `seconds` pass again and again until something has ended; turns are in between."""
    ending = asyncio.ensure_future(ended)
    for _ in range(1000):
        skip(seconds)
        await turns(20)
        if ending.done():
            break
    assert ending.done(), "time was up"
    await ending
