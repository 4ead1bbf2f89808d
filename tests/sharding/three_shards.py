"""A store of three shards in memory, and the services of a process on it."""

from typing import Any

from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.trusted_clock import trusted
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.topic import TopicId
from tms.metadata.memory import open_memory
from tms.namespaces.store import NamespaceStore
from tms.server.node import OpenServices
from tms.server.shard import Process, Upkeep
from tms.server.sharded import ShardedServices, open_sharded
from tms.settings import Settings

SHARDS = 3


def home_of(services: OpenServices | ShardedServices, topic: TopicId) -> Any:
    """Return the services of a topic's shard."""
    sharding = services.sharding
    return services.in_shard(0 if sharding is None else sharding.shard_of(topic))


async def new_process(
    limits: Limits, clock: Clock, registry: CollectorRegistry | None = None
) -> Process:
    """Return what a process has once for all shards, with namespaces opened."""
    namespaces = NamespaceStore(open_memory(), limits)
    await namespaces.open()
    return Process(
        limits,
        trusted(clock, limits),
        registry or CollectorRegistry(),
        namespaces,
        values=None,
        may_block_loop=False,
    )


async def open_three(
    by: ShardBy,
    limits: Limits,
    clock: Clock,
    settings: Settings,
    registry: CollectorRegistry | None = None,
) -> ShardedServices:
    """Yield the services on three new shards; close them at the end."""
    process = await new_process(limits, clock, registry)
    stores = [MemoryStore() for _ in range(SHARDS)]
    opened = [(StoreTables(each), Upkeep("memory:", each, settings)) for each in stores]
    return await open_sharded(opened, Sharding(SHARDS, by), process)
