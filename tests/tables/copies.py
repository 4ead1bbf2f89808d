"""Stores that tests fill, copy and inspect."""

import json
from typing import Any

from tests.cli.conftest import run_command
from tests.sharding.three_shards import home_of
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, open_services
from tms.server.sharded import ShardedServices

ORDERS = TopicId("ns", "orders")


OTHER = TopicId("ns", "orders-2")


GONE = TopicId("ns", "gone")


async def polled(
    services: OpenServices | ShardedServices, *, committed: bool
) -> list[tuple[bytes, bytes]]:
    found = []
    for topic_id in (ORDERS, OTHER):
        blocks = home_of(services, topic_id).messaging.poll(
            topic_id,
            Reading(FIRST_ID, limit=100_000, view=isolation_of(committed=committed)),
        )
        found += [(message.id, message.payload) async for block in blocks for message in block]
    return found


async def fill(store: str, *, many: int = 100) -> dict[bool, list[tuple[bytes, bytes]]]:
    """Fill a store; return what readers see, by whether they are committed readers."""
    services = await open_services(store)
    messaging, transactions = services.messaging, services.transactions
    for topic_id in (ORDERS, OTHER, GONE):
        await messaging.create_topic(topic_id, {"ttl": 604_800})
        properties = {"ttl": 2**31 - 1, "colour": topic_id.name}
        await messaging.update_topic(
            topic_id, properties
        )  # which records which messages have expired
    await messaging.publish(GONE, [b"gone"])
    await messaging.delete_topic(GONE)
    await messaging.publish(OTHER, [b"older generation"])
    await messaging.delete_topic(OTHER)
    await messaging.create_topic(OTHER, {"ttl": 2**31 - 1})
    for number in range(many):
        await messaging.publish(ORDERS, [b"%d" % number] * 10)
    committed = (await transactions.start(StartRequest())).transaction_id
    await messaging.store(OTHER, [b"stored"] * 3, committed)
    await messaging.publish(OTHER, [], committed)
    await messaging.publish(ORDERS, [b"committed"], committed)
    await transactions.commit(committed)
    invalid = (await transactions.start(StartRequest())).transaction_id
    await messaging.publish(ORDERS, [b"dead"] * 3, invalid)
    await transactions.invalidate(invalid)
    await messaging.publish(ORDERS, [b"last"])
    await services.subscriptions.create_subscription(ORDERS, "billing")
    seen = {committed: await polled(services, committed=committed) for committed in (True, False)}
    await services.close()
    return seen


async def seen_in(store: str) -> tuple[dict[bool, list[tuple[bytes, bytes]]], Any, bytes]:
    services = await open_services(store)
    seen = {committed: await polled(services, committed=committed) for committed in (True, False)}
    properties = await services.messaging.topic(OTHER)
    assert [each.name for each in await services.subscriptions.subscriptions(ORDERS)] == ["billing"]
    await services.messaging.publish(ORDERS, [b"new"])
    [last] = [i for i, payload in await polled(services, committed=True) if payload == b"new"]
    await services.close()
    return seen, properties, last


def copy(source: str, target: str) -> dict[str, Any]:
    code, out, err = run_command("copy", source, target, "--json")
    assert (code, err) == (0, "")
    facts: dict[str, Any] = json.loads(out)
    return facts
