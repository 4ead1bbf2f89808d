"""One server's presence in its cluster: its entry among the others, and its looks at the store.

A process has one, for all the leases that it takes part in. It is there from the first `enter` to
the last `leave`.
"""

from functools import partial

from tms.cluster.agreement import check_agreement
from tms.cluster.instances import Registration, instances_of
from tms.cluster.lease import LeaseClock, SteadySeconds
from tms.cluster.peers import Ask, PeerWatch, check_address, everybody
from tms.cluster.store_watch import Look, StoreWatch
from tms.core.runtime.clock import Clock, SystemClock
from tms.core.services.cluster import Instance
from tms.metadata.interface import MetadataStore
from tms.metadata.patience import once_reached


class Presence:
    """A server among those of its cluster. Used from the event loop of its metadata store."""

    def __init__(
        self,
        store: MetadataStore,
        instance: Instance,
        *,
        lease_s: float,
        look: Look,
        ask: Ask = everybody,
        clock: LeaseClock | None = None,
        time: Clock | None = None,
    ) -> None:
        """Be there as `instance`; `store` stays open.

        `look` finds out whether this server reaches the store that the cluster shares, and `ask`
        whether it reaches another server. Leases last
        for `lease_s` seconds by `clock`; keys go by `time`.
        """
        self.time: Clock = time or SystemClock()
        self.clock: LeaseClock = clock or SteadySeconds(self.time)
        self.store = store
        self.lease_s = lease_s
        self.registration = Registration(store, instance)
        self.watch = StoreWatch(
            look, store, self.registration, lease_s=lease_s, clock=self.clock, time=self.time
        )
        self._ask = ask
        self.peers = PeerWatch(ask, store, self.registration, lease_s=lease_s, clock=self.clock)
        self._entered = 0

    @property
    def instance(self) -> Instance:
        """The server as it is registered."""
        return self.registration.instance

    async def enter(self) -> None:
        """Register and look, unless that was done; waits for a metadata store that is away.

        Raises `MetadataClosed`, and `ValueError` if this server's settings contradict those of
        another one, or another one answers at its address.
        """
        if self._entered == 0:
            await once_reached(self.registration.open)
            try:
                others = await once_reached(partial(instances_of, self.store))
                check_agreement(self.instance, others)
                await check_address(self.instance, others, self._ask)
            except BaseException:
                await self.registration.withdraw()
                raise
            self.watch.open()
            self.peers.open()
        self._entered += 1

    async def retire(self) -> None:
        """Have the others know that this server is not to lead anything any more."""
        await self.registration.retire()

    async def leave(self) -> None:
        """Be there no more, if nobody else has entered."""
        self._entered -= 1
        if self._entered == 0:
            await self.peers.close()
            await self.watch.close()
            await self.registration.close()
