"""The ways to the current leader and to earlier ones: a forwarded request stays on its way.

An earlier leader has `GRACE_S` to answer the requests that it accepted, because a server that stops
in order still answers them; then they are broken off. If it leads again before that, or never
stopped leading, its requests continue.
"""

import asyncio
import ssl

from api.cluster.forward_shares import FORWARDED_MAX
from api.http.break_off import BreakOff
from tms.core.errors import OutcomeUnknown
from tms.outgoing.upstream import Upstream

GRACE_S = 3.0


class Way:
    """The way to one process of a server."""

    __slots__ = ("address", "at_work", "boot", "client")

    def __init__(self, address: str, boot: str, client: Upstream) -> None:
        self.address = address
        self.boot = boot
        """The process that it leads to; empty if that is not known."""
        self.client = client
        self.at_work: set[BreakOff] = set()
        """The requests on it, to be broken off once it no longer leads to the leader."""

    def leads_to(self, address: str | None, boot: str) -> bool:
        """Whether it leads to a process, as far as both processes are known."""
        return self.address == address and (not boot or self.boot in ("", boot))

    def close(self) -> None:
        """Break off the requests on it."""
        for request in list(self.at_work):
            request.break_off(OutcomeUnknown(reason="another server is the leader now"))
        self.client.close()


class Ways:
    """The way to the current leader, and those to earlier ones. Used from its event loop."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        """Verify a leader at https:// with `tls`, None for the machine's own certificates."""
        self._tls = tls
        self.present: Way | None = None
        self._left: dict[Way, asyncio.TimerHandle] = {}
        """Earlier ways with requests on them, and the timer that closes each."""

    def lead_to(self, address: str | None, boot: str) -> None:
        """Lead to `address` from now on, or nowhere if it is None.

        `boot` identifies the process of that server; it is empty if that is not known.
        """
        old = self.present
        if old is not None and old.leads_to(address, boot):
            old.boot = boot or old.boot
            return
        if old is not None:
            self._leave(old)
        if address is None:
            self.present = None
            return
        again = next((way for way in self._left if way.leads_to(address, boot)), None)
        if again is None:
            again = Way(
                address, boot, Upstream(address, self._tls, connections_max=2 * FORWARDED_MAX)
            )
        else:
            self._left.pop(again).cancel()
            again.boot = boot or again.boot
        self.present = again

    def _leave(self, way: Way) -> None:
        if way.at_work:
            closing = asyncio.get_running_loop().call_later(GRACE_S, self._close, way)
            self._left[way] = closing
        else:
            way.close()

    def _close(self, way: Way) -> None:
        self._left.pop(way).cancel()
        way.close()

    def close(self) -> None:
        """Lead nowhere, and close all connections."""
        self.lead_to(None, "")
        for way in list(self._left):
            self._close(way)
