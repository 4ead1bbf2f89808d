"""Finds out which servers of a cluster reach each other at their advertised addresses.

1. Each server sends requests to all registered others, and records in its entry which of them have
   not answered for `SILENT_LEASES`. An answer of another process does not count.
2. A server that more than half of the others do not reach is unreachable: it should lead nothing,
   unless all servers are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from tms.cluster.instances import Registration, instances_of
from tms.cluster.lease import LeaseClock
from tms.core.errors import TmsError
from tms.core.runtime.supervision import supervised
from tms.core.services.cluster import Instance
from tms.core.services.findings import Finding, FindingKind
from tms.metadata.interface import MetadataStore

SILENT_LEASES = 1.0
_EVERY_LEASES = 0.25
_ASKED_S_MAX = 5.0

Ask = Callable[[Instance], Awaitable[bool]]
"""Sends a request to a server's address; returns whether it answers. May raise any error if not."""

_log = logging.getLogger(__name__)


def unreachable_of(instances: Collection[Instance]) -> set[int]:
    """Return the servers that more than half of the others do not reach; none if that is all."""
    ids = {instance.id for instance in instances if not instance.is_stopping}
    unreachable = set()
    for instance in ids:
        others = [each for each in instances if each.id in ids and each.id != instance]
        missing = sum(instance in other.unreached_servers for other in others)
        if 2 * missing > len(others):
            unreachable.add(instance)
    return unreachable if unreachable != ids else set()


async def check_address(own: Instance, instances: Collection[Instance], ask: Ask) -> None:
    """Raise `ValueError` if another server answers at a server's address.

    If it does not answer, it may be this server before a restart.
    """
    for other in instances:
        if other.id != own.id and other.address == own.address and not other.is_stopping:
            try:
                async with asyncio.timeout(_ASKED_S_MAX):
                    is_there = await ask(other)
            except Exception:  # whatever it is, the server was not reached
                is_there = False
            if is_there:
                raise ValueError(
                    f"server {other.id} of the cluster answers at {own.address}: give each server "
                    "an address of its own in --advertise"
                )


class PeerWatch:
    """One server's checks of the others. Used from one event loop."""

    def __init__(
        self,
        ask: Ask,
        metadata: MetadataStore,
        registration: Registration,
        *,
        lease_s: float,
        clock: LeaseClock,
    ) -> None:
        """Check from `open` on; `registration` records the servers that do not answer."""
        self._ask = ask
        self._metadata = metadata
        self._registration = registration
        self._every_s = _EVERY_LEASES * lease_s
        self._silent_s = SILENT_LEASES * lease_s
        self._clock = clock
        self._silent_from_s: dict[int, float] = {}
        """Since when a server has not answered."""
        self._instances: Sequence[Instance] = ()
        self._watching: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start checking."""
        self._watching = supervised("asking the other servers", self._watch)

    async def close(self) -> None:
        """Stop checking."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    @property
    def unreachable(self) -> set[int]:
        """The servers that most others do not reach, as last read."""
        return unreachable_of(self._instances)

    @property
    def is_to_yield(self) -> bool:
        """Whether most others do not reach this server, and a reachable one could lead."""
        unreachable = self.unreachable
        return self._registration.instance.id in unreachable and any(
            instance.reaches_store_since_ms is not None
            for instance in self._instances
            if instance.id not in unreachable
        )

    @property
    def unreached(self) -> int:
        """The number of servers that this one does not reach."""
        return len(self._registration.instance.unreached_servers)

    def findings(self) -> list[Finding]:
        """Return findings about unreachable servers."""
        unreachable = self.unreachable
        return [
            Finding(
                kind=FindingKind.SERVER_UNREACHED,
                where=f"server {instance.id}",
                text=f"Most other servers do not reach it at {instance.address}, "
                "so it leads nothing.",
                advice="Check that its --advertise is right and that no other server uses the same "
                "address, and check the network between the servers.",
            )
            for instance in self._instances
            if instance.id in unreachable
        ]

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except TmsError as error:
                _log.debug("cannot read the list of servers: %s", error)
            await asyncio.sleep(self._every_s)

    async def _look(self) -> None:
        own = self._registration.instance.id
        self._instances = await instances_of(self._metadata)
        others = [
            instance
            for instance in self._instances
            if instance.id != own and not instance.is_stopping
        ]
        answers = await asyncio.gather(*map(self._answers, others))
        now_s = self._clock.now_s()
        before, self._silent_from_s = self._silent_from_s, {}
        for other, answers_now in zip(others, answers, strict=True):
            if not answers_now:
                self._silent_from_s[other.id] = before.get(other.id, now_s)
        silent = [n for n, s in self._silent_from_s.items() if now_s - s >= self._silent_s]
        for each in others:
            if each.id in silent and each.id not in self._registration.instance.unreached_servers:
                _log.warning("server %d does not answer at %s", each.id, each.address)
        self._registration.report_unreached(silent)

    async def _answers(self, other: Instance) -> bool:
        try:
            async with asyncio.timeout(min(_ASKED_S_MAX, self._silent_s)):
                return await self._ask(other)
        except Exception:  # whatever it is, the server was not reached
            return False


async def reaches_all(_: Instance) -> bool:
    """Count every server as reached."""
    return True
