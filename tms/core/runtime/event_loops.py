"""Detects that an object is used in another event loop than its own."""

import asyncio

_REFUSAL = (
    "this client belongs to another event loop, in which it was used first: connect in each, for "
    "instance in each asyncio.run(), or use tms.connect, which needs no loop"
)


class OwnLoop:
    """The event loop of an object: the one in which it is first used."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        """Belong to no loop yet."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise `RuntimeError` in another loop. Outside any loop, do nothing."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise RuntimeError(_REFUSAL)
