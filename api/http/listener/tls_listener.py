"""Accepts connections on a socket, and makes the TLS handshake before HTTP starts.

Guarantees:

- A connection counts among those of the server from the moment it is accepted. So half-open
  handshakes are bounded like connections, and the oldest makes way for a new one.
- A handshake takes at most `HANDSHAKE_S_MAX` seconds, or the time limit of a request's head if that
  is less.
- Each handshake uses the newest context, so a changed certificate needs no new socket.

Failed handshakes are counted, and logged at most once a minute. Sockets are accepted here and not
by `loop.create_server`, because asyncio's own handshakes are not counted before they are complete,
and uvloop's `start_tls` loses bytes that a client sent before it was called.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from api.http.listener.connection import HttpConnection
from api.http.listener.tls import ServerTls
from api.http.listener.tls_half_close import half_closing
from api.http.protocol.connections import Connections
from tms.core.errors import InvalidRequest, TmsError
from tms.core.runtime.rare_log import RareLog

HANDSHAKE_S_MAX = 10.0
SHUTDOWN_S_MAX = 1.0
"""The time that a client may take to acknowledge the end."""
_ACCEPTED_A_TURN = 64
_PAUSE_S = 1.0
"""The pause in accepting connections if the system has no resources for more."""
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PLAIN_HTTP = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST")

_log = logging.getLogger("tms.api")

Make = Callable[[], HttpConnection]


class TlsListener:
    """A socket that listens for TLS."""

    def __init__(
        self, listening: socket.socket, make: Make, shared: Connections, tls: ServerTls
    ) -> None:
        """Accept connections until `close`, which closes the socket too."""
        self.shared = shared
        self.make = make
        self.tls = tls
        self.failures = RareLog(_log, "TLS handshakes that failed")
        self.seconds = min(HANDSHAKE_S_MAX, shared.idle.seconds)
        self._listening = listening
        self._resuming: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._resume()

    def _resume(self) -> None:
        self._resuming = None
        self.shared.loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Accept waiting connections, up to a number, so that other work gets its turn."""
        for _ in range(_ACCEPTED_A_TURN):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._pause(error)
                return
            Handshake(self, accepted, str(address[0])).start()

    def _pause(self, error: OSError) -> None:
        _log.error("accepting no connections for %.0f s: %s", _PAUSE_S, error.strerror)
        self.shared.loop.remove_reader(self._listening)
        self._resuming = self.shared.loop.call_later(_PAUSE_S, self._resume)

    def close(self) -> None:
        """Stop accepting. Closing twice is the same as once."""
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        if self._listening.fileno() >= 0:
            self.shared.loop.remove_reader(self._listening)
            self._listening.close()


class Handshake(asyncio.Protocol):
    """A connection that does not speak HTTP yet: `api.http.protocol.connections.OpenConnection`."""

    is_of_server = is_at_work = False
    unread_bytes = 0

    def __init__(self, listener: TlsListener, accepted: socket.socket, address: str) -> None:
        """Use an accepted socket, from `start` on."""
        self._listener = listener
        self._socket = accepted
        self.address = address
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def start(self) -> None:
        """Count the connection, and start the handshake."""
        shared = self._listener.shared
        shared.entered(self)
        if not self._is_over:
            self._task = shared.loop.create_task(self._run())

    async def _run(self) -> None:
        listener = self._listener
        try:
            await listener.shared.loop.connect_accepted_socket(
                lambda: self,
                self._socket,
                ssl=half_closing(listener.tls.context),
                ssl_handshake_timeout=listener.seconds,
                ssl_shutdown_timeout=SHUTDOWN_S_MAX,
            )
        except OSError as error:
            listener.failures.add(f"{self.address}: {_reason(error)}")
        finally:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        self._listener.shared.left(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection to HTTP: the handshake is complete."""
        self._end()
        connection = self._listener.make()
        secured = cast("asyncio.Transport", transport)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        secured.get_extra_info("ssl_object").report_end_to(connection)

    # Called by others.

    def close(self) -> None:
        """Drop the client."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._socket.close()
        self._end()

    abort = finish = close

    def refuse(self, error: TmsError) -> None:
        """Drop the client: it could not read an answer yet."""
        self._listener.failures.add(f"{self.address}: {error}")
        self.close()

    def fail_body(self, error: InvalidRequest) -> None:
        """Do nothing: there is no body."""


def _reason(error: OSError) -> str:
    """Return the reason why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        if error.reason in _PLAIN_HTTP:
            return "it speaks HTTP without TLS: its URL should begin with https://"
        return f"{error.reason or error}"
    return str(error) or "it closed the connection"
