"""Says in words that something is used in another event loop than the one it belongs to."""

import asyncio

_REFUSAL = (
    "this client belongs to another event loop, in which it was used first: connect in each, for "
    "instance in each asyncio.run(), or use tms.connect, which needs no loop"
)


class OwnLoop:
    """The event loop that something belongs to: the one it is first used in."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        """Belong to none yet."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise `RuntimeError` in another loop. Outside of any loop nothing is done yet."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise RuntimeError(_REFUSAL)
