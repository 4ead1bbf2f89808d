"""Reports to systemd that the server serves, and keeps telling it that its event loop runs.

This is sd_notify's protocol: a datagram to the socket in `NOTIFY_SOCKET`. Without that variable
nothing happens. The watchdog is fed by a timer of the event loop, so a server whose loop hangs for
`WatchdogSec` is restarted.
"""

import asyncio
import logging
import os
import socket

_USEC_PER_S = 1_000_000
_log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that started this process, if any."""

    def __init__(self) -> None:
        """Read the variables, and remove them: child processes must not notify."""
        environment = os.environ
        self._address = environment.pop("NOTIFY_SOCKET", "")
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_ours = pid in ("", str(os.getpid()))
        self._interval_s = int(usec) / _USEC_PER_S / 2 if usec.isdecimal() and is_ours else 0.0

    def serving(self) -> None:
        """Report that the server serves, and feed the watchdog from now on, in a running loop."""
        self._send(b"READY=1")
        if self._address and self._interval_s:
            self._feed(asyncio.get_running_loop())

    def _feed(self, loop: asyncio.AbstractEventLoop) -> None:
        self._send(b"WATCHDOG=1")
        loop.call_later(self._interval_s, self._feed, loop)

    def _send(self, state: bytes) -> None:
        if not self._address:
            return
        # A leading @ stands for the abstract namespace, whose names begin with a null byte.
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(state, address)
        except OSError as error:
            _log.warning("cannot notify the service manager: %s", error)
