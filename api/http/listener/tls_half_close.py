"""Lets a client end its side of a TLS connection, and still get the answers to what it sent.

TLS 1.3 lets each side end alone (RFC 8446, 6.1). The event loops do not: at the client's
`close_notify` they drop what was not written yet. So the object that decrypts does not show them
that alert, and tells the connection of it. In TLS 1.2 both sides have to end together (RFC 5246,
7.2.1), and the connection is closed. So it is, in either version, if the client ends TCP alone,
because that may be an attack that cuts a request short.
"""

import asyncio
import contextlib
import ssl
from typing import Any

from api.http.listener.connection import HttpConnection

_ENDS_ALONE = "TLSv1.3"


class HalfClosing(ssl.SSLObject):
    """Decrypts what comes. The end of it is told to the connection instead of being read."""

    _connection: HttpConnection | None = None
    _is_ended = False

    def tell_end_to(self, connection: HttpConnection) -> None:
        """Have a connection told when the client has ended its side, perhaps already."""
        self._connection = connection
        if self._is_ended:
            self._tell()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002  as its base names it
        """Return what was decrypted. Raises `SSLWantReadError` if there is nothing, or never is."""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            found = super().read(len, buffer)
            if found:
                return found
        if not self._is_ended:
            self._is_ended = True
            self._tell()
        raise ssl.SSLWantReadError

    def _tell(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # The connection gets first all that came before the end.
            ends_alone = self.version() == _ENDS_ALONE
            asyncio.get_running_loop().call_soon(_end, connection, ends_alone)


def _end(connection: HttpConnection, ends_alone: bool) -> None:  # noqa: FBT001  call_soon's
    if connection.is_lost:
        return
    if not (ends_alone and connection.eof_received()):
        connection.close()


def half_closing(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context whose connections may end on one side."""
    context.sslobject_class = HalfClosing
    return context
