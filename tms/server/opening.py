"""Opens what a server serves: a whole store, or all the shards of one that has several.

What serves shards is imported only where a store has some.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from tms.cluster.store_watch import look_s_max
from tms.core.cluster import HeldLease
from tms.core.errors import TmsError
from tms.core.payload_values import PayloadValues
from tms.core.shards import Sharding
from tms.core.trusted_clock import TrustedClock
from tms.messaging.features import Instances
from tms.server.node import OpenServices, open_services
from tms.server.stores import sharding_of
from tms.settings import Settings

if TYPE_CHECKING:
    from tms.server.sharded import ShardedServices

_log = logging.getLogger(__name__)


async def known_sharding(settings: Settings) -> Sharding | None:
    """Return how the store of `settings` is divided; None also if HBase does not answer soon."""
    quick = {"hbase_retry_s": 0.0, "hbase_timeout_s": look_s_max(settings.lease_s)}
    try:
        return await asyncio.to_thread(
            sharding_of, settings.store, settings.model_copy(update=quick)
        )
    except TmsError as error:
        _log.warning("it is not known yet how the store is divided: %s", error)
        return None


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
