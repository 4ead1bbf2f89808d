"""A tunnel through a proxy to one server (CONNECT), to carry TLS."""

import asyncio
from typing import cast

from tms.outgoing.url import Url

_HEAD_BYTES_MAX = 64 * 1024
_END = b"\r\n\r\n"


class Tunnel(asyncio.Protocol):
    """A connection to a proxy, until the tunnel is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._answered: asyncio.Future[None] = loop.create_future()

    async def lead_to(self, url: Url, authorization: bytes) -> None:
        """Ask the proxy for a tunnel to a server. Raises `ConnectionError` if it refuses."""
        host = f"[{url.host}]" if ":" in url.host else url.host
        place = f"{host}:{url.port}".encode("ascii")
        fields = b"proxy-authorization: %s\r\n" % authorization if authorization else b""
        assert self._transport is not None
        self._transport.write(b"CONNECT %s HTTP/1.1\r\nhost: %s\r\n%s\r\n" % (place, place, fields))
        await self._answered
        version, _, status = self._head.partition(b"\r\n")[0].partition(b" ")
        if not version.startswith(b"HTTP/1.") or not status.startswith(b"2"):
            status_line = status.decode("ascii", "replace")[:60].strip()
            raise ConnectionError(f"the proxy refuses: {status_line or 'it does not speak HTTP'}")
        if not self._head.endswith(_END):
            raise ConnectionError("the proxy sends more than its answer")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse the head of the answer; a success has no body."""
        self._head += data
        if _END in self._head or len(self._head) > _HEAD_BYTES_MAX:
            self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiter: no answer will arrive."""
        del exc
        self._answer()

    def _answer(self) -> None:
        if not self._answered.done():
            self._answered.set_result(None)
