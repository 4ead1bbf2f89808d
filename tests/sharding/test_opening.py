"""A server's services on a store with several shards, on the simulated HBase."""

from contextlib import suppress
from typing import Any

import happybase  # noqa: F401  the store needs it imported first
import pytest
from prometheus_client import CollectorRegistry

from tables.hbase import open_marks, opening
from tables.hbase.layout import FORMAT_KEY, Place, format_row
from tables.hbase.store import HBaseStore
from tables.store import METADATA, TRANSACTION
from tests.sharding.three_shards import home_of
from tests.simulation.gateway import Call, Rows, SimulatedGateway
from tests.waiting import until
from tms.core.errors import OutcomeUnknown, StoreFormatUnknown, StoreLocked, StoreUnavailable
from tms.core.runtime.clock import SystemClock
from tms.core.runtime.trusted_clock import trusted
from tms.core.values.message import position_of
from tms.core.values.reading import Isolation, Reading
from tms.core.values.shards import OneShard, ShardBy, Sharding
from tms.core.values.topic import TopicId
from tms.server.opening import open_served
from tms.server.sharded import ShardedServices
from tms.server.stores import create_tables, free_shard
from tms.settings import Settings

pytestmark = pytest.mark.anyio

SHARDING = Sharding(3, ShardBy.TOPIC)
TOPICS = [TopicId("ns", name) for name in ("t", "e", "p")]
PLACE = Place("simulated", 1, "n", None)
SETTINGS = Settings(store="hbase://simulated:1/n")


class StuckRows(Rows):
    """An HBase that can leave writes to the tables of a shard unanswered."""

    stuck: int | None = None

    def carry_out(self, call: Call, rows: int | None = None) -> Any:
        if self.stuck is not None and call.arguments[0].startswith(b"n.%d_" % self.stuck):
            raise TimeoutError("no answer")
        return super().carry_out(call, rows)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> StuckRows:
    """An HBase with a store that `tms init` has just created."""
    rows = StuckRows()
    rows.tables.clear()
    monkeypatch.setattr(opening, "Gateway", lambda *_, **__: SimulatedGateway(rows, lambda: None))
    create_tables(SETTINGS.store, SETTINGS, None, SHARDING)
    return rows


async def opened() -> ShardedServices:
    clock = trusted(SystemClock(), SETTINGS.limits())
    services = await open_served(SETTINGS, clock, CollectorRegistry(), values=None)
    assert isinstance(services, ShardedServices)
    return services


async def test_what_is_acknowledged_is_there_when_it_is_opened_again(rows: Rows) -> None:
    services = await opened()
    assert services.sharding == SHARDING
    for topic in TOPICS:
        await services.messaging.create_topic(topic)
        await home_of(services, topic).messaging.publish(topic, [topic.name.encode()])
    await services.close()

    services = await opened()
    reading = Reading(position_of(None), view=Isolation.COMMITTED)
    for topic in TOPICS:
        page = await home_of(services, topic).messaging.page(topic, reading)
        assert [message.payload for block in page.blocks for message in block] == [
            topic.name.encode()
        ]
        name = PLACE.of_shard(SHARDING.shard_of(topic)).name_of(METADATA)
        assert b"\x00ns:%s:" % topic.name.encode() in rows.tables[name]
    await services.close()


@pytest.mark.parametrize(
    "wrong",
    [
        format_row(1),
        format_row(1, shard=OneShard(2, SHARDING)),
        format_row(1, shard=OneShard(1, Sharding(3))),
        format_row(1, shard=OneShard(1, Sharding(4, ShardBy.TOPIC))),
        b"",
    ],
)
async def test_a_shard_that_is_another_is_refused_and_none_stays_open(
    rows: Rows, wrong: bytes
) -> None:
    name = PLACE.of_shard(1).name_of(METADATA)
    right = rows.tables[name][FORMAT_KEY].value
    rows._put(name, FORMAT_KEY, wrong)
    with pytest.raises(StoreFormatUnknown):
        await opened()

    for shard in (0, 2):
        own = rows.tables[PLACE.of_shard(shard).name_of(TRANSACTION)]
        closed = open_marks.closed_alone()
        assert {key: own[key].value for key in closed.rows} == closed.rows
    rows._put(name, FORMAT_KEY, right)
    await (await opened()).close()


async def test_a_failed_write_stops_its_shard_alone(rows: StuckRows) -> None:
    services = await opened()
    stuck, *others = TOPICS
    for topic in TOPICS:
        await services.messaging.create_topic(topic)
    rows.stuck = SHARDING.shard_of(stuck)
    with pytest.raises(OutcomeUnknown):
        await home_of(services, stuck).messaging.publish(stuck, [b"1"])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await home_of(services, stuck).messaging.publish(stuck, [b"2"])
        for topic in others:
            await home_of(services, topic).messaging.publish(topic, [b"1"])
    services.messaging.check_ready()
    [finding] = services.findings()
    assert finding.where == f"shard {rows.stuck}"
    assert "accepts no writes" in finding.text

    rows.stuck = None

    async def is_published() -> bool:
        with suppress(StoreUnavailable):
            await home_of(services, stuck).messaging.publish(stuck, [b"3"])
            return True
        return False

    await until(is_published)
    assert not services.findings()
    for topic, payloads in ((stuck, [b"1", b"3"]), *((each, [b"1"] * 2) for each in others)):
        page = await home_of(services, topic).messaging.page(topic, Reading(position_of(None)))
        assert [message.payload for block in page.blocks for message in block] == payloads
    await services.close()


async def test_a_shard_is_freed_from_a_leader_and_not_from_a_later_one(rows: StuckRows) -> None:
    url, place, token = f"{SETTINGS.store}.0", PLACE.of_shard(0), 5
    store = HBaseStore(place, SimulatedGateway(rows, lambda: None))
    store.take_over(token=token, is_last=lambda: False)
    store.close()
    assert not free_shard(url, SETTINGS, token - 1)
    with pytest.raises(StoreLocked):
        await opened()
    assert free_shard(url, SETTINGS, token)
    assert not free_shard(url, SETTINGS, token)
