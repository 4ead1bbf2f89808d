"""After a pause a server listens to its members before it ends the leases that they hold."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import number, payloads
from tests.virtual_loop import VIRTUAL, VirtualClock, VirtualLoop
from tests.waiting import passes, turns
from tms.core.limits import Limits
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import (
    Acks,
    Settle,
    Take,
)
from tms.server.node import services_on

pytestmark = pytest.mark.anyio
LEASE_S = 5


class GoingClock(VirtualClock):
    """The clock of a machine whose process may pause."""

    def standstill_ms(self) -> int:
        return self.steady_ms()


@pytest.fixture
def anyio_backend() -> Any:
    return VIRTUAL


async def test_leases_start_again_after_a_standstill_and_end_by_themselves() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = GoingClock(loop)
    services = await services_on(StoreTables(MemoryStore()), Limits(), clock, CollectorRegistry())
    threads = services.groups._engine.threads
    loop.hold_time_while(lambda: threads._writes.under_way + threads._reads.under_way)
    try:
        groups = services.groups
        await services.messaging.create_topic(TOPIC)
        await groups.create_group(TOPIC, "g", GroupSettings(lease_s=LEASE_S, retry_s=0))
        await services.messaging.publish(TOPIC, [b"1"])
        held = await groups.take(TOPIC, "g", Take("a"))
        waiting = asyncio.create_task(groups.take(TOPIC, "g", Take("b"), wait_s=60))
        await passes(1)

        loop._hurried.now_s += 8  # nothing runs, and no requests arrive
        assert (await groups.take(TOPIC, "g", Take("c"))).delivery is None
        extended = await groups.settle(TOPIC, "g", "a", Settle(extend=[number(held)]))
        assert extended.refused == []
        await passes(LEASE_S - 1)
        assert not waiting.done()
        done = await groups.settle(TOPIC, "g", "a", Settle(acks=[Acks(number(held))]))
        assert done.settled == 1

        await services.messaging.publish(TOPIC, [b"2"])
        assert payloads(await waiting) == [b"2"]
        next_one = asyncio.create_task(groups.take(TOPIC, "g", Take("c"), wait_s=60))
        loop._hurried.now_s += 8
        await turns(5)
        assert not next_one.done()
        await passes(LEASE_S + 1)  # b says nothing
        assert payloads(await next_one) == [b"2"]
    finally:
        await services.close()
