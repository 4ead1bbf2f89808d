"""Opens the store that a server serves: a whole store, or all shards of one with several.

The code for shards is imported only for a store with shards.
"""

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.payload_values import PayloadValues
from tms.server.node import OpenServices, open_services
from tms.server.stores import sharding_of
from tms.settings import Settings

if TYPE_CHECKING:
    from tms.server.sharded import ShardedServices


async def open_served(
    settings: Settings,
    clock: TrustedClock,
    registry: CollectorRegistry,
    *,
    values: PayloadValues | None,
    may_block_loop: bool = False,
) -> "OpenServices | ShardedServices":
    """Return the services on the store of `settings`, for a standalone server.

    Close them when done. The arguments are those of `open_services`. Raises as that does.
    """
    sharding = await asyncio.to_thread(sharding_of, settings.store, settings)
    if sharding is None:
        return await open_services(
            settings.store,
            clock=clock,
            settings=settings,
            registry=registry,
            values=values,
            may_block_loop=may_block_loop,
        )
    from tms.server.sharded import open_shards  # noqa: PLC0415  only for stores with shards

    return await open_shards(
        settings.store,
        sharding,
        clock,
        settings,
        registry,
        values=values,
        may_block_loop=may_block_loop,
    )
