"""The requests that wait for a leader, and their bodies, kept so that they can be sent again.

At most `HELD_MAX` requests wait at once, and the bodies take at most `bytes_max`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from api.http.exchange import Exchange

HELD_MAX = 10_000
KEPT_BYTES_MAX = 64 * 1024
"""A body up to this size is read before it is forwarded; a larger one is streamed, and kept."""


class HeldRequests:
    """The waiting requests of one server."""

    def __init__(self, bytes_max: int) -> None:
        self.count = 0
        """The number of requests that wait for a leader."""
        self._bytes = 0
        self._bytes_max = bytes_max

    def may_wait(self, exchange: Exchange) -> bool:
        """Whether a request had no effect yet, and there is room for it."""
        has_all = exchange.whole_body is not None or exchange.bytes_in == 0
        has_all = has_all or exchange.kept is not None
        size = _held_size(exchange)
        has_room = self.count < HELD_MAX and self._bytes + size <= self._bytes_max
        return has_all and has_room and not exchange.is_begun

    @contextmanager
    def keeping(self, exchange: Exchange) -> Iterator[None]:
        """Keep a body as it is read, if there is room, so that it can be sent again."""
        size = exchange.fields.body_bytes
        if not size or self._bytes + size > self._bytes_max:
            yield
            return
        self._bytes += size
        exchange.kept = []
        try:
            yield
        finally:
            self._bytes -= size
            exchange.kept = None

    async def wait(self, exchange: Exchange, news: asyncio.Event, wait_s: float) -> None:
        """Wait for news of a leader, or for at most `wait_s`."""
        size = _held_size(exchange)
        self.count += 1
        self._bytes += size
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await news.wait()
        finally:
            self.count -= 1
            self._bytes -= size


def _held_size(exchange: Exchange) -> int:
    """Return the bytes of a body that are held and not counted yet."""
    return len(exchange.whole_body or b"") if exchange.kept is None else 0


async def read_kept(exchange: Exchange) -> None:
    """Read the rest of a body that is kept, to make it complete. Raises as `receive`."""
    if exchange.kept is not None and exchange.whole_body is None:
        while exchange.body_unread:
            await exchange.receive()
        exchange.whole_body, exchange.kept = b"".join(exchange.kept), []
