"""Every operation passes the door with the topics that it touches; what is refused is not done."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import OPERATIONS, create_app, create_standby
from api.cluster.forwarding import Forwarder
from api.cluster.standby import ClusterApp
from api.http.operation import Operation
from tests.api.cluster.standing_by import ID, LIMITS, Known
from tests.api.rest import AVRO_TYPE, TOPIC, Live, avro_publish, live, refusal, serving
from tms.core.caller import Caller
from tms.core.errors import TopicNotFound
from tms.core.topic import TopicId

pytestmark = pytest.mark.anyio

A, B, T = TopicId("ns", "a"), TopicId("ns", "b"), TopicId("ns", "t")


class Guard:
    """Notes who passes, and lets nobody who touches a forbidden topic."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[TopicId, ...]]] = []
        self.forbidden: set[TopicId] = set()

    def __call__(self, caller: Caller, operation: Operation, topics: Sequence[TopicId]) -> None:
        assert caller.principal is None
        self.seen.append((operation.name, tuple(topics)))
        if not self.forbidden.isdisjoint(topics):
            raise TopicNotFound(topic="forbidden")


class Door:
    """A server with a guard, asked itself or through one that stands by."""

    def __init__(
        self, guard: Guard, served: Live, http: httpx.AsyncClient, *, is_forwarded: bool
    ) -> None:
        self.guard = guard
        self.is_forwarded = is_forwarded
        self.served = served
        self.http = http

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.http.post(path, json=body)


@pytest.fixture(params=["itself", "forwarded"])
async def door(anyio_backend: object, request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    guard = Guard()
    async with live(own=True) as served:
        for topic in ("a", "b", "t"):
            await served.create(f"/v1/namespaces/ns/topics/{topic}")
        app = create_app(served.services, LIMITS, registry=CollectorRegistry(), guards=(guard,))
        forwarder = Forwarder(ID)
        standby = ClusterApp(
            create_standby(forwarder, Known(), LIMITS, registry=CollectorRegistry())
        )
        async with (
            serving(app, LIMITS) as (url, _),
            serving(standby, LIMITS) as (other_url, _),
        ):
            forwarder.lead_to(url)
            is_forwarded = request.param == "forwarded"
            asked = other_url if is_forwarded else url
            async with httpx.AsyncClient(base_url=asked, trust_env=False) as http:
                yield Door(guard, served, http, is_forwarded=is_forwarded)
            await forwarder.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_every_operation_passes_with_the_topic_of_its_path(
    door: Door, operation: Operation
) -> None:
    path = operation.path.format(namespace="ns", topic="t", subscription="s", transaction_id=1)
    answer = await door.http.request(operation.method, path)
    if not door.guard.seen:
        # What tells of a server itself, a standby answers.
        assert operation.path in ("/health", "/ready", "/metrics", "/v1/cluster")
        assert "tms-forwarded-by" not in answer.headers
        return

    expected = (T,) if "{topic}" in operation.path else ()
    assert door.guard.seen[0] == (operation.name, expected)


async def test_topics_in_bodies_pass_too(door: Door) -> None:
    started = (await door.post("/v1/transactions?codec=false", {})).json()
    transaction = f"/v1/transactions/{started['transaction_id']}"
    subscription = f"{TOPIC}/subscriptions/s"
    position = (await door.http.put(subscription)).json()
    door.guard.seen.clear()

    await door.post("/v1/namespaces/ns/publish", {"topics": {"a": ["1"], "b": ["2"]}})
    await door.post("/v1/namespaces/ns/positions", {"topics": ["b", "a"]})
    move = {
        "namespace": "ns",
        "topic": "t",
        "subscription": "s",
        "after": "00" * 20,
        "expected_version": position["version"],
    }
    await door.post(f"{transaction}/commit", {"advances": [move]})
    await door.http.get("/v1/debug/rows?namespace=ns&topic=a")

    assert door.guard.seen == [
        ("publishAll", ()),
        ("publishAll", (A, B)),
        ("getPositions", ()),
        ("getPositions", (B, A)),
        ("commitTransaction", ()),
        ("commitTransaction", (T,)),
        ("debugRows", ()),
        ("debugRows", (A,)),
    ]


async def test_what_a_guard_refuses_is_not_done(door: Door) -> None:
    door.guard.forbidden = {A}
    body = {"topics": {"a": ["1"], "b": ["2"]}}
    assert refusal(await door.post("/v1/namespaces/ns/publish", body)) == (404, "topic_not_found")
    refused = await door.http.post(
        "/v1/namespaces/ns/topics/a/publish",
        content=avro_publish(b"x"),
        headers={"content-type": AVRO_TYPE},
    )
    assert refusal(refused) == (404, "topic_not_found")

    for topic in ("a", "b"):
        assert await door.served.messages(f"/v1/namespaces/ns/topics/{topic}") == []


async def test_the_topics_of_the_service_are_changed_by_their_part_alone(door: Door) -> None:
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


async def test_a_guard_is_asked_before_the_body_is_read(door: Door) -> None:
    door.guard.forbidden = {A}

    url = httpx.URL(door.http.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /v1/namespaces/ns/topics/a/publish HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"
    )
    await door.served.until(lambda: door.guard.seen == [("publish", (A,))])
    if not door.is_forwarded:
        async with asyncio.timeout(5):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
    writer.close()
