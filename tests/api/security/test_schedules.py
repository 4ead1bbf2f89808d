"""The rights to schedule, list and cancel messages, their limits, and their audit."""

import json
from typing import Any

import pytest

from tests.api.rest import TOPIC, refusal
from tests.api.security.secured import Pair, Server, pair_of_servers
from tms.core.limits import PrincipalLimits
from tms.core.values.schedules import DeliveryTime
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

WAYS = ("directly", "forwarded")
T = TopicId("ns", "t")
SCHEDULE, SCHEDULED = f"{TOPIC}/schedule?deliver_after=3600", f"{TOPIC}/scheduled"
LATER = {"namespace": "ns", "topic": "t", "messages": ["x"], "deliver_after": 3600}


async def schedule(server: Server, headers: dict[str, str]) -> Any:
    return await server.http.post(SCHEDULE, json={"messages": ["x"]}, headers=headers)


async def commit(server: Server, headers: dict[str, str]) -> Any:
    started = await server.http.post("/v1/transactions", json={}, headers=headers)
    path = f"/v1/transactions/{started.json()['transaction_id']}/commit"
    return await server.http.post(path, json={"schedule": [LATER]}, headers=headers)


@pytest.mark.parametrize("way", WAYS)
async def test_scheduling_and_cancelling_need_publish_and_listing_consume(
    pair: Pair, way: str
) -> None:
    await pair.services.messaging.create_topic(T)
    waiting = await pair.services.schedules.schedule(T, [b"secret"], DeliveryTime(after_s=60))
    http = pair.servers[way].http
    reader, writer, nobody = [await pair.token(who) for who in ("reader", "writer", "nobody")]
    await pair.allow("reader", Action.CONSUME, name="t")
    await pair.allow("writer", Action.PUBLISH, name="t")
    for who in ("reader", "writer", "nobody"):
        await pair.allow(who, Action.TRANSACT)

    cancel = f"{SCHEDULED}/{waiting.ids[0]}"
    for headers, status in ((reader, 403), (nobody, 404)):
        assert (await schedule(pair.servers[way], headers)).status_code == status
        assert (await commit(pair.servers[way], headers)).status_code == status
        assert (await http.delete(cancel, headers=headers)).status_code == status
    assert (await http.get(SCHEDULED, headers=nobody)).status_code == 404
    assert (await http.get(SCHEDULED, headers=writer)).status_code == 403
    listed = await http.get(SCHEDULED, headers=reader)
    assert [each["payload"] for each in listed.json()] == ["secret"]

    assert (await schedule(pair.servers[way], writer)).status_code == 200
    assert (await commit(pair.servers[way], writer)).status_code == 200
    assert (await http.delete(cancel, headers=writer)).status_code == 200
    listed = await http.get(SCHEDULED, headers=reader)
    assert [each["payload"] for each in listed.json()] == ["x", "x"]


@pytest.mark.parametrize("way", WAYS)
async def test_scheduled_messages_count_as_published(anyio_backend: object, way: str) -> None:
    async with pair_of_servers(limits=PrincipalLimits(publish_messages_per_s=1)) as pair:
        await pair.services.messaging.create_topic(T)
        await pair.allow("ann", Action.PUBLISH)
        await pair.allow("ann", Action.TRANSACT)
        headers, server = await pair.token("ann"), pair.servers[way]
        for do, other in ((schedule, commit), (commit, schedule)):
            assert (await do(server, headers)).status_code == 200
            refused = await other(server, headers)
            assert refusal(refused) == (429, "principal_rate_exceeded")
            pair.clock.advance(1000)


@pytest.mark.parametrize("way", WAYS)
async def test_the_audit_has_uses_and_refusals(pair: Pair, way: str) -> None:
    await pair.services.messaging.create_topic(T)
    headers, server = await pair.token("ann"), pair.servers[way]
    await pair.allow("ann", Action.CONSUME, name="t")
    await pair.allow("ann", Action.TRANSACT)

    def told() -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for each in pair.servers.values() for line in each.audited.lines]
        return [
            (each["operation"], each["action"], each["effect"])
            for each in lines
            if each["principal"] == "ann" and each["action"] == "publish"
        ]

    await schedule(server, headers)
    await commit(server, headers)
    denied = [("schedule", "publish", "deny"), ("commitTransaction", "publish", "deny")]
    assert told() == denied
    await pair.allow("ann", Action.PUBLISH, name="t")
    await commit(server, headers)
    assert told() == [*denied, ("commitTransaction", "publish", "allow")]


@pytest.mark.parametrize("way", WAYS)
async def test_the_audit_has_each_cancellation(pair: Pair, way: str) -> None:
    await pair.services.messaging.create_topic(T)
    http, headers = pair.servers[way].http, await pair.token("ann")
    await pair.allow("ann", Action.PUBLISH, name="t")
    waiting = await pair.services.schedules.schedule(T, [b"1", b"2"], DeliveryTime(after_s=60))
    for message_id in (*waiting.ids, waiting.ids[0]):
        await http.delete(f"{SCHEDULED}/{message_id}", headers=headers)
    lines = [json.loads(line) for each in pair.servers.values() for line in each.audited.lines]
    told = [
        (each["action"], each["effect"], each["status"], each["about"])
        for each in lines
        if each["operation"] == "cancelScheduled"
    ]
    assert told == [
        ("publish", "allow", status, f"scheduled message {message_id}")
        for message_id, status in zip((*waiting.ids, waiting.ids[0]), (200, 200, 404), strict=True)
    ]
