"""One server's presence in its cluster: its entry, and its checks of the store and of others.

A process has one for all its leases, from the first `enter` to the last `leave`.
"""

from functools import partial

from tms.cluster.agreement import check_agreement
from tms.cluster.instances import Registration, instances_of
from tms.cluster.lease import LeaseClock, SteadySeconds
from tms.cluster.peers import Ask, PeerWatch, check_address, reaches_all
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
        ask: Ask = reaches_all,
        clock: LeaseClock | None = None,
        time: Clock | None = None,
    ) -> None:
        """Be present as `instance`; `store` stays open.

        `look` checks whether this server reaches the shared store, and `ask` whether it reaches
        another server. Leases last for `lease_s` seconds by `clock`; keys use `time`.
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
        """Register and start the checks, unless done; wait for an unreachable metadata store.

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
        """Announce that this server should no longer lead anything."""
        await self.registration.retire()

    async def leave(self) -> None:
        """Leave, if no other user of this presence remains."""
        self._entered -= 1
        if self._entered == 0:
            await self.peers.close()
            await self.watch.close()
            await self.registration.close()
