"""Access control refuses callers without the right, and a refused request does nothing."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from tests.api.cluster.standing_by import ID, LIMITS, Following, Known
from tests.api.doors import ROOT, Doors, bearer
from tests.api.rest import AVRO_TYPE, TOPIC, Live, avro_publish, live, refusal, serving
from tests.waiting import in_time
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

NS = "/v1/namespaces/ns"


class Door:
    """A server that admits the callers it knows, directly or through a follower.

    Without keys in common, the follower passes on what a caller says.
    """

    def __init__(
        self, doors: Doors, served: Live, http: httpx.AsyncClient, *, is_forwarded: bool
    ) -> None:
        self.doors = doors
        self.is_forwarded = is_forwarded
        self.served = served
        self.http = http

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def by(self, principal: str) -> None:
        """Send later requests as this principal."""
        self.http.headers.update(bearer(await self.doors.token(principal)))


@pytest.fixture(params=["itself", "forwarded"])
async def door(anyio_backend: object, request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    doors = Doors()
    await doors.open()
    async with live(own=True) as served:
        for topic in ("a", "b", "t"):
            await served.create(f"{NS}/topics/{topic}")
        access = doors.access()
        app = create_app(served.services, LIMITS, registry=CollectorRegistry(), access=access)
        forwarder = Forwarder(ID)
        standing_by = Following(forwarder, cluster=Known(), access=doors.access())
        async with (
            serving(app, LIMITS) as (url, _),
            serving(standing_by.app, LIMITS) as (other_url, _),
        ):
            standing_by.hear(url)
            is_forwarded = request.param == "forwarded"
            asked = other_url if is_forwarded else url
            async with httpx.AsyncClient(base_url=asked, trust_env=False, verify=False) as http:
                yield Door(doors, served, http, is_forwarded=is_forwarded)
            await standing_by.close()
        await doors.grants.close()


async def test_topics_in_bodies_are_looked_at_too(door: Door) -> None:
    await door.by(ROOT)
    started = (await door.post("/v1/transactions?codec=false", {})).json()
    transaction = f"/v1/transactions/{started['transaction_id']}"
    position = (await door.http.put(f"{TOPIC}/subscriptions/s")).json()
    move = {
        "namespace": "ns",
        "topic": "t",
        "subscription": "s",
        "after": "00" * 20,
        "expected_version": position["version"],
    }
    await door.by("ann")
    await door.doors.allow("ann", [Action.PUBLISH, Action.CONSUME], "ns", "a")
    await door.doors.allow("ann", [Action.TRANSACT, Action.TRANSACT_ANY])

    both = {"topics": {"a": ["1"], "b": ["2"]}}
    hidden = (404, "topic_not_found")
    assert refusal(await door.post(f"{NS}/publish", both)) == hidden
    assert refusal(await door.post(f"{NS}/positions", {"topics": ["a", "b"]})) == hidden
    assert refusal(await door.post(f"{transaction}/commit", {"advances": [move]})) == hidden
    assert refusal(await door.http.get("/v1/debug/rows")) == (403, "not_permitted")
    assert refusal(await door.post("/v1/namespaces/other/publish", both)) == (403, "not_permitted")

    await door.doors.allow("ann", [Action.PUBLISH, Action.CONSUME], "ns", "b")
    await door.doors.allow("ann", [Action.SUBSCRIBE], "ns", "t")
    assert (await door.post(f"{NS}/publish", both)).status_code == 200
    assert (await door.post(f"{NS}/positions", {"topics": ["a", "b"]})).status_code == 200
    answer = await door.post(f"{transaction}/commit", {"advances": [move]})
    assert answer.status_code == 200, answer.text


async def test_lists_have_what_one_may_see(door: Door) -> None:
    await door.by("ann")
    assert (await door.http.get(f"{NS}/topics")).json() == []
    await door.doors.allow("ann", [Action.CONSUME], "ns", "a")
    rule = await door.doors.allow("ann", [Action.DESCRIBE], "ns", "t*")
    assert (await door.http.get(f"{NS}/topics")).json() == ["a", "t"]
    await door.doors.grants.remove_rule(rule.id)
    assert (await door.http.get(f"{NS}/topics")).json() == ["a"]


async def test_subscriptions_of_some_names_are_ones_own(door: Door) -> None:
    await door.by(ROOT)
    for name in ("mine.1", "theirs"):
        await door.http.put(f"{TOPIC}/subscriptions/{name}")
    await door.by("ann")
    assert refusal(await door.http.get(f"{TOPIC}/subscriptions")) == (404, "topic_not_found")
    await door.doors.allow_subscriptions("ann", "ns", "t", "mine.*")
    listed = (await door.http.get(f"{TOPIC}/subscriptions")).json()
    assert [each["name"] for each in listed] == ["mine.1"]
    assert (await door.http.put(f"{TOPIC}/subscriptions/mine.2")).status_code == 200
    refused = await door.http.get(f"{TOPIC}/subscriptions/theirs")
    assert refusal(refused) == (403, "not_permitted")
    assert refusal(await door.post(f"{TOPIC}/poll", {})) == (403, "not_permitted")


async def test_what_is_refused_is_not_done(door: Door) -> None:
    await door.by("ann")
    await door.doors.allow("ann", [Action.PUBLISH], "ns", "b")
    body = {"topics": {"a": ["1"], "b": ["2"]}}
    assert refusal(await door.post(f"{NS}/publish", body)) == (404, "topic_not_found")
    refused = await door.http.post(
        f"{NS}/topics/a/publish",
        content=avro_publish(b"x"),
        headers={"content-type": AVRO_TYPE},
    )
    assert refusal(refused) == (404, "topic_not_found")
    assert refusal(await door.http.delete(f"{NS}/topics/b")) == (403, "not_permitted")

    for topic in ("a", "b"):
        assert await door.served.messages(f"{NS}/topics/{topic}") == []


async def test_the_topics_of_the_service_are_changed_by_their_part_alone(door: Door) -> None:
    await door.by(ROOT)
    topics = "/v1/namespaces/system/topics"
    by_registry = {"tms-part": "registry"}
    by_another = {"tms-part": "other"}
    refused = (403, "topic_of_the_service")
    theirs, body = f"{topics}/_schemas", {"messages": ["x"]}

    assert refusal(await door.http.put(theirs)) == refused
    assert refusal(await door.http.put(theirs, headers=by_another)) == refused
    assert (await door.http.put(theirs, headers=by_registry)).status_code == 200
    assert refusal(await door.http.put(f"{topics}/_other", headers=by_registry)) == refused
    assert refusal(await door.post(f"{theirs}/publish", body)) == refused
    for of_all in ({"_schemas": ["x"]}, {"_schemas": ["x"], "free": ["y"]}):
        answer = await door.post("/v1/namespaces/system/publish", {"topics": of_all})
        assert refusal(answer) == refused
    kept = await door.http.post(f"{theirs}/publish", json=body, headers=by_registry)
    assert kept.status_code == 200
    assert refusal(await door.http.put(f"{theirs}/properties", json={"ttl": 1})) == refused
    assert refusal(await door.http.delete(theirs)) == refused

    assert [m["payload"] for m in (await door.post(f"{theirs}/poll", {})).json()] == ["x"]
    assert (await door.http.put(f"{topics}/metadata")).status_code == 200, "CDAP's are ordinary"


async def test_who_may_not_is_refused_before_the_body_is_read(door: Door) -> None:
    token = await door.doors.token("ann")
    url = httpx.URL(door.http.base_url)
    for head, status in ((b"", b"401"), (b"authorization: Bearer %s\r\n" % token.encode(), b"404")):
        if door.is_forwarded and head:
            continue  # the follower does not read the rules
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(
            b"POST /v1/namespaces/ns/topics/a/publish HTTP/1.1\r\nhost: localhost\r\n"
            + head
            + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"
        )
        async with in_time():
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 %s " % status)
        writer.close()
