"""An event loop with real sockets and threads, on which a test can skip time.

Time limits are as long as in a real server, so a paused process does not exceed them.
"""

import asyncio
from collections.abc import Awaitable

from tests.waiting import turns


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is the real time plus the time skipped."""

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
    """Skip `seconds` again and again, with turns of the loop in between, until `ended` is done."""
    ending = asyncio.ensure_future(ended)
    for _ in range(1000):
        skip(seconds)
        await turns(20)
        if ending.done():
            break
    assert ending.done(), "time was up"
    await ending
