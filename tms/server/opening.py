"""Opens what a server serves: a whole store, or all the shards of one that has several.

What serves shards is imported only where a store has some.
"""

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from tms.cluster.store_watch import look_s_max
from tms.core.cluster import HeldLease
from tms.core.payload_values import PayloadValues
from tms.core.shards import Sharding
from tms.core.trusted_clock import TrustedClock
from tms.messaging.features import Instances
from tms.server.node import OpenServices, open_services
from tms.server.stores import sharding_of
from tms.settings import Settings

if TYPE_CHECKING:
    from tms.server.sharded import ShardedServices


class KnownSharding:
    """The way in which the store of `settings` is divided. It never changes, so it is read once."""

    def __init__(self, settings: Settings) -> None:
        quick = {"hbase_retry_s": 0.0, "hbase_timeout_s": look_s_max(settings.lease_s)}
        self._settings = settings.model_copy(update=quick)
        self._read: list[Sharding | None] = []
        """Empty until it is known."""

    async def __call__(self) -> Sharding | None:
        """Return it; None if the store has one shard. Raises as `sharding_of`, soon."""
        if not self._read:
            settings = self._settings
            self._read.append(await asyncio.to_thread(sharding_of, settings.store, settings))
        return self._read[0]


async def open_served(
    settings: Settings,
    clock: TrustedClock,
    registry: CollectorRegistry,
    *,
    values: PayloadValues | None,
    lease: HeldLease | None = None,
    instances: Instances | None = None,
    may_block_loop: bool = False,
) -> "OpenServices | ShardedServices":
    """Return the services on the store of `settings`; close them when done.

    The arguments are those of `open_services`. Raises as that.
    """
    sharding = await asyncio.to_thread(sharding_of, settings.store, settings)
    if sharding is None:
        return await open_services(
            settings.store,
            clock=clock,
            settings=settings,
            registry=registry,
            values=values,
            lease=lease,
            instances=instances,
            may_block_loop=may_block_loop,
        )
    from tms.server.sharded import open_shards  # noqa: PLC0415  for stores with shards alone

    return await open_shards(
        settings.store,
        sharding,
        clock,
        settings,
        registry,
        values=values,
        lease=lease,
        instances=instances,
        may_block_loop=may_block_loop,
    )
