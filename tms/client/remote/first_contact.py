"""Detects early that an address is not TMS's, because it does not speak HTTP or is silent.

A request may take long, so a client waits long for an answer. But until the first answer arrives,
the server may not be TMS at all. So if the first request is not answered soon, or the connection is
closed instead, the client asks for the server's health on a separate connection; TMS answers that
at once whatever else it does. The client looks at the bytes of this answer, because an HTTP library
does not show bytes that are not HTTP. If none arrive, that is logged, and the caller's `timeout_s`
says how long to keep waiting.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from time import monotonic

from tms.core.errors import NotTms, ServerSilent
from tms.outgoing.answer import Answer, BrokenAnswer, LateAnswer
from tms.outgoing.url import parse_url

PATIENCE_S = 2.0
"""How long the first answer may take before the client asks for the server's health."""
HEALTH_S = 2.0
"""How long the answer about its health may take."""
_HTTP = b"HTTP/"
_TLS_ALERT = b"\x15\x03"
_TLS = "it speaks TLS: write https://"
_SHOWN_CHARS_MAX = 60
_SILENT = (
    "%s accepts connections but has not said a byte in %.0f s; it may not be TMS. Still waiting"
)
_log = logging.getLogger("tms.client")


class FirstContact:
    """Whether a server has ever answered."""

    def __init__(self) -> None:
        """Begin before the first answer."""
        self.is_over = False

    async def wait(self, answer: Callable[[], Awaitable[Answer]], url: str) -> Answer:
        """Return the result of `answer`, the head of an answer, or raise its error.

        Raises `NotTms` and `ServerSilent` if `url` has never answered.
        """
        if self.is_over or not url.startswith("http://"):
            return await answer()
        is_silent, asked_s = False, monotonic()
        answering = asyncio.ensure_future(answer())
        try:
            await asyncio.wait((answering,), timeout=PATIENCE_S)
            if not answering.done() and await _said(url) is None and not answering.done():
                is_silent = True
                _log.warning(_SILENT, url, monotonic() - asked_s)
            told = await answering
        except BrokenAnswer as error:
            if isinstance(error, LateAnswer):
                if not is_silent:
                    raise
                reason = f"no byte received in {monotonic() - asked_s:.0f} s"
                raise ServerSilent(url=url, reason=reason) from None
            if not await _said(url) and await _speaks_tls(url):
                raise NotTms(url=url, reason=_TLS) from None
            raise
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.wait((answering,))
        self.is_over = True
        return told


async def _said(url: str) -> bytes | None:
    """Return the first bytes of the answer to a health request; None if there is no answer.

    b"" if the server has gone in the meantime. Raises `NotTms` if the bytes are not HTTP.
    """
    place = parse_url(url)
    try:
        async with asyncio.timeout(HEALTH_S):
            reader, writer = await asyncio.open_connection(place.host, place.port)
            try:
                writer.write(
                    b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % place.netloc.encode("ascii")
                )
                said = await reader.read(1024)
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return b""
    if said.startswith(_TLS_ALERT):
        raise NotTms(url=url, reason=_TLS)
    if said and not said.startswith(_HTTP):
        line = said.splitlines()[0].decode(errors="backslashreplace")[:_SHOWN_CHARS_MAX]
        raise NotTms(url=url, reason=f"it does not speak HTTP but answers {line!r}")
    return said


async def _speaks_tls(url: str) -> bool:
    """Whether a TLS handshake succeeds. No data is sent, so the server need not be trusted."""
    place = parse_url(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(HEALTH_S):
            _, writer = await asyncio.open_connection(place.host, place.port, ssl=context)
    except (TimeoutError, OSError):
        return False
    writer.transport.abort()
    return True
