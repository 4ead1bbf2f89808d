"""The ways to a leader, and to those before it: a request that is on one stays on it.

A leader that was left answers what it had taken, if it has stopped leading in order. It has
`GRACE_S` for requests that only read, because these can be repeated, and `GRACE_CHANGES_S` for
others, which a busy machine may take seconds to read. Then they are broken off. If it leads again
before, or was only taken for one that does not, its requests go on.
"""

import asyncio
import ssl
from collections.abc import Iterable

from api.cluster.break_off import BreakOff
from api.cluster.upstream import Upstream
from tms.core.errors import OutcomeUnknown

GRACE_S = 3.0
GRACE_CHANGES_S = 10.0


class Way:
    """The way to one process of a server."""

    __slots__ = ("address", "boot", "changes", "client", "reads")

    def __init__(self, address: str, boot: str, client: Upstream) -> None:
        self.address = address
        self.boot = boot
        """Which process it is; empty if that is not known."""
        self.client = client
        self.reads: set[BreakOff] = set()
        """The requests on it that only read, to be broken off once it leads to the leader no more.
        """
        self.changes: set[BreakOff] = set()
        """The other ones."""

    def leads_to(self, address: str | None, boot: str) -> bool:
        """Whether it leads to a process, as far as it is known which one is meant."""
        return self.address == address and (not boot or self.boot in ("", boot))

    @property
    def at_work(self) -> set[BreakOff]:
        """All requests on it."""
        return self.reads | self.changes

    def break_off(self, requests: Iterable[BreakOff]) -> None:
        """Break off some of what is on it."""
        for request in list(requests):
            request.break_off(OutcomeUnknown(reason="another server is the leader now"))

    def close(self) -> None:
        """Break off what is on it."""
        self.break_off(self.at_work)
        self.client.close()


class Ways:
    """The way to the present leader, and those that were left. Used from its event loop."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        """Trust a leader at https:// by `tls`; None: by the machine's own certificates."""
        self._tls = tls
        self.present: Way | None = None
        self._left: dict[Way, asyncio.TimerHandle] = {}
        """Ways with requests on them, and what closes each."""

    def lead_to(self, address: str | None, boot: str) -> None:
        """Lead to `address` from now on, None: nowhere.

        `boot` says which process of that server it is; empty: that is not known.
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
            again = Way(address, boot, Upstream(address, self._tls))
        else:
            self._left.pop(again).cancel()
            again.boot = boot or again.boot
        self.present = again

    def _leave(self, way: Way) -> None:
        if way.at_work:
            ending = asyncio.get_running_loop().call_later(GRACE_S, self._end_reads, way)
            self._left[way] = ending
        else:
            way.close()

    def _end_reads(self, way: Way) -> None:
        way.break_off(way.reads)
        left_s = max(0.0, GRACE_CHANGES_S - GRACE_S) if way.changes else 0.0
        self._left[way] = asyncio.get_running_loop().call_later(left_s, self._close, way)

    def _close(self, way: Way) -> None:
        self._left.pop(way).cancel()
        way.close()

    def close(self) -> None:
        """Lead nowhere, and close all connections."""
        self.lead_to(None, "")
        for way in list(self._left):
            self._close(way)
