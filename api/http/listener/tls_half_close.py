"""Lets a client end its side of a TLS connection, and still get the answers to what it sent.

In TLS 1.3 each side may end on its own (RFC 8446, 6.1). The event loops do not support that: at the
client's `close_notify` they drop pending output. So the decrypting object hides that alert from
them, and reports it to the connection. In TLS 1.2 both sides must end together (RFC 5246, 7.2.1),
and the connection is closed. It is also closed, in either version, if the client ends only TCP,
because that may be an attack that cuts a request short.
"""

import asyncio
import contextlib
import ssl
from typing import Any

from api.http.listener.connection import HttpConnection

_ENDS_ALONE = "TLSv1.3"


class HalfClosing(ssl.SSLObject):
    """Decrypts received bytes, and reports their end to the connection instead of the loop."""

    _connection: HttpConnection | None = None
    _is_ended = False

    def report_end_to(self, connection: HttpConnection) -> None:
        """Report to a connection that the client has ended its side, when or if it has."""
        self._connection = connection
        if self._is_ended:
            self._report()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002  as its base names it
        """Return decrypted bytes. Raises `SSLWantReadError` if there are none, even at the end."""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            size = super().read(len, buffer)
            if size:
                return size
        if not self._is_ended:
            self._is_ended = True
            self._report()
        raise ssl.SSLWantReadError

    def _report(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # The connection first gets all bytes before the end.
            ends_alone = self.version() == _ENDS_ALONE
            asyncio.get_running_loop().call_soon(_end, connection, ends_alone)


def _end(connection: HttpConnection, ends_alone: bool) -> None:  # noqa: FBT001  call_soon's
    if connection.is_lost:
        return
    if not (ends_alone and connection.eof_received()):
        connection.close()


def half_closing(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context whose connections may be half-closed."""
    context.sslobject_class = HalfClosing
    return context
