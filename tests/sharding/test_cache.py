"""The shards of a process share the memory of the cache."""

import pytest
from prometheus_client import CollectorRegistry

from tests.sharding.three_shards import home_of, open_three
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import position_of
from tms.core.values.reading import Reading
from tms.core.values.shards import ShardBy
from tms.core.values.topic import TopicId
from tms.settings import Settings

pytestmark = pytest.mark.anyio

BYTES_MAX = 1_000_000
PART = [bytes(50_000)] * 4


async def test_one_shard_may_use_all_of_it_and_another_takes_it_back() -> None:
    registry, limits = CollectorRegistry(), Limits(cache_bytes_max=BYTES_MAX)
    services = await open_three(ShardBy.TOPIC, limits, SystemClock(), Settings(), registry)
    one, other = TopicId("default", "a"), TopicId("default", "b")
    assert services.sharding.shard_of(one) != services.sharding.shard_of(other)

    async def publish(topic: TopicId, times: int) -> float:
        for _ in range(times):
            await home_of(services, topic).messaging.publish(topic, PART)
        used = registry.get_sample_value("tms_cache_bytes")
        assert used is not None
        return used

    def misses() -> float:
        found = [
            registry.get_sample_value("tms_cache_misses_total", {"shard": str(shard)})
            for shard in range(3)
        ]
        return sum(each or 0 for each in found)

    for topic in (one, other):
        await services.messaging.create_topic(topic)
    assert BYTES_MAX / 2 < await publish(one, 4) <= BYTES_MAX
    from_start = Reading(position_of(None))
    await home_of(services, one).messaging.page(one, from_start)
    assert misses() == 0
    assert BYTES_MAX / 2 < await publish(other, 10) <= BYTES_MAX
    await home_of(services, one).messaging.page(one, from_start)
    assert misses() == 1
    await services.close()
