"""A server that stands by: it has the leader answer, both bodies streamed, and says so.

The leader is a real one on the memory store, and both are behind sockets.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import cast

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from api import messages
from api.direct import HotEndpoint
from api.endpoint import Endpoint
from api.exchange import Context
from api.forwarding import Forwarder
from api.metrics import OperationMetrics
from api.serve import serve
from api.standby import ClusterApp, Standby
from tests.api.rest import (
    AVRO_TYPE,
    TOPIC,
    Live,
    Wire,
    avro_poll,
    avro_publish,
    live,
    refusal,
    zipped,
)
from tms.core.cluster import ClusterState, Instance, Role
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

ID = 7
LIMITS = Limits(request_body_s_max=1.0)
S_MAX = 30.0
STATE = ClusterState(
    id=ID,
    role=Role.STANDBY,
    leader=4,
    token=2,
    instances=[Instance(id=4, address="http://a:1", version="1", since_ms=5)],
)


class Known:
    """A cluster that stands as it does."""

    async def state(self) -> ClusterState:
        return STATE


class Second:
    """A server that stands by, and a client of it."""

    def __init__(self, forwarder: Forwarder, app: ClusterApp, http: httpx.AsyncClient) -> None:
        self.forwarder = forwarder
        self.app = app
        self.http = http

    async def connect(self) -> Wire:
        url = self.http.base_url
        return Wire(*await asyncio.open_connection(url.host, url.port))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def leader(anyio_backend: str) -> AsyncIterator[Live]:
    async with live(own=True) as leading:
        yield leading


@pytest.fixture
async def second(leader: Live) -> AsyncIterator[Second]:
    forwarder = Forwarder(ID)
    app = ClusterApp(Standby(forwarder, Known(), LIMITS, CollectorRegistry()))
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve(
            app,
            host="127.0.0.1",
            port=0,
            limits=LIMITS,
            on_started=started.set_result,
            on_stopping=lambda: None,
            stop=stop,
            grace_s=0.5,
        )
    )
    forwarder.lead_to(f"http://127.0.0.1:{leader.port}")
    async with httpx.AsyncClient(
        base_url=await started, headers={"accept-encoding": "identity"}, trust_env=False
    ) as http:
        yield Second(forwarder, app, http)
    stop.set()
    await serving
    await forwarder.close()


async def test_requests_are_answered_by_the_leader(second: Second, leader: Live) -> None:
    created = await second.http.put(TOPIC, json={"ttl": 60})
    assert (created.status_code, created.content) == (200, b"")
    assert created.headers["tms-forwarded-by"] == str(ID)
    body = zipped(avro_publish(b"one", b"two"))
    headers = {"content-type": AVRO_TYPE, "content-encoding": "gzip"}
    await second.http.post(f"{TOPIC}/publish", content=body, headers=headers)

    assert await leader.payloads() == [b"one", b"two"]
    through, straight = [
        await http.post(f"{TOPIC}/poll", content=avro_poll(), headers={"content-type": AVRO_TYPE})
        for http in (second.http, leader.http)
    ]
    assert through.content == straight.content
    assert "tms-forwarded-by" not in straight.headers
    assert through.headers["content-type"] == AVRO_TYPE
    assert through.headers.get_list("date") == [through.headers["date"]]
    assert (await second.http.get(TOPIC)).json()["properties"]["ttl"] == "60"


async def test_errors_and_queries_come_through(second: Second) -> None:
    assert refusal(await second.http.get(TOPIC)) == (404, "topic_not_found")
    assert refusal(await second.http.get("/v1/nowhere")) == (404, "not_found")
    started = await second.http.post("/v1/transactions?codec=false")
    pointer = started.json()["transaction_id"]
    listed = await second.http.get("/v1/transactions?status=in_progress")
    assert [each["transaction_id"] for each in listed.json()] == [pointer]
    odd = await second.http.get("/v1/namespaces/a%2Fb/topics?x=%20y")
    assert odd.status_code == 404
    head = await second.http.head("/openapi.json")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_body_arrives_before_it_is_whole(second: Second, leader: Live) -> None:
    await leader.create()
    wire = await second.connect()
    body = json.dumps({"messages": ["x" * 100_000]}).encode()
    headers = {"content-type": "application/json", "transfer-encoding": "chunked"}
    await wire.send("POST", f"{TOPIC}/publish", b"", headers)
    for start in range(0, len(body), 10_000):
        part = body[start : start + 10_000]
        wire.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        await wire.writer.drain()
        await asyncio.sleep(0.001)
    wire.writer.write(b"0\r\n\r\n")

    assert (await wire.answer())[0] == 200
    assert [len(payload) for payload in await leader.payloads()] == [100_000]
    await wire.close()


async def test_a_refused_body_ends_the_connection_after_the_answer(second: Second) -> None:
    wire = await second.connect()
    await wire.send("POST", f"{TOPIC}/publish", b"x", {"content-length": str(1 << 40)})

    status, headers, _ = await wire.answer()

    assert (status, headers["connection"]) == (413, "close")
    await wire.close()


async def test_a_body_that_never_comes_is_not_waited_for(second: Second, leader: Live) -> None:
    await leader.create()
    wire = await second.connect()
    await wire.send("POST", f"{TOPIC}/publish", b"x", {"content-length": "10"})

    status, headers, body = await wire.answer()

    assert (status, headers["connection"]) == (408, "close")
    assert json.loads(body)["error"]["code"] == "body_too_slow"
    await wire.close()


async def test_a_long_answer_is_streamed(second: Second, leader: Live) -> None:
    await leader.create()
    for _ in range(4):
        await leader.publish(*[bytes(100_000)] * 20)
    body, headers = avro_poll(limit=1000), {"content-type": AVRO_TYPE}
    parts = 0
    async with second.http.stream("POST", f"{TOPIC}/poll", content=body, headers=headers) as answer:
        async for _ in answer.aiter_raw():
            parts += 1

    assert parts > 5


async def test_a_poll_waits_at_the_leader_and_ends_with_its_client(
    second: Second, leader: Live
) -> None:
    await leader.create()
    wire = await second.connect()
    headers = {"content-type": AVRO_TYPE}
    await wire.send("POST", f"{TOPIC}/poll?wait=60", avro_poll(), headers)
    await leader.until(lambda: leader.waiters() == 1)

    await wire.close()

    await leader.until(lambda: leader.waiters() == 0)


async def test_without_a_leader_nothing_is_done_and_that_is_said(second: Second) -> None:
    for address in (None, "http://127.0.0.1:1"):
        second.forwarder.lead_to(address)
        answer = await second.http.put(TOPIC)
        assert refusal(answer) == (503, "no_leader")
        assert answer.headers["retry-after"] == "1"
    second.forwarder.lead_to(None)
    assert refusal(await second.http.get("/ready")) == (503, "no_leader")


async def test_what_was_forwarded_once_is_not_forwarded_again(second: Second, leader: Live) -> None:
    answer = await second.http.put(TOPIC, headers={"TMS-Forwarded-By": "3"})

    assert refusal(answer) == (503, "no_leader")
    assert refusal(await leader.http.get(TOPIC)) == (404, "topic_not_found")


async def test_when_another_leads_who_waits_is_told_that_he_does_not_know(
    second: Second, leader: Live
) -> None:
    await leader.create()
    headers = {"content-type": AVRO_TYPE}
    waiting = asyncio.create_task(
        second.http.post(f"{TOPIC}/poll?wait=60", content=avro_poll(), headers=headers)
    )
    await leader.until(lambda: leader.waiters() == 1)

    second.forwarder.lead_to("http://127.0.0.1:1")

    async with asyncio.timeout(S_MAX):
        assert refusal(await waiting) == (504, "outcome_unknown")


async def test_what_tells_of_the_server_itself_is_answered_here(second: Second) -> None:
    for path in ("/health", "/ready", "/metrics", "/v1/cluster"):
        answer = await second.http.get(path)
        assert answer.status_code == 200
        assert "tms-forwarded-by" not in answer.headers
    told = (await second.http.get("/v1/cluster")).json()
    assert (told["id"], told["role"], told["leader"], told["token"]) == (ID, "standby", 4, 2)
    assert told["instances"][0]["address"] == "http://a:1"


async def test_a_leader_answers_for_as_long_as_its_lease_lasts(second: Second) -> None:
    left_s = 5.0
    answered: list[str] = []
    endpoint = Endpoint(messages.publish, cast("Context", None), OperationMetrics())
    hot = HotEndpoint(endpoint, endpoint, {})

    class Own:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            answered.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"own"})

        def find(self, path: str) -> HotEndpoint:
            return hot

    assert second.app.find("/x") is None
    second.app.lead(Own(), lambda: left_s)
    assert (await second.http.get("/x")).content == b"own"
    assert second.app.find("/x") is hot
    left_s = 0.0
    assert second.app.find("/x") is None
    assert refusal(await second.http.get("/x")) == (404, "not_found")
    left_s = 5.0
    second.app.stand_by()
    assert refusal(await second.http.get("/x")) == (404, "not_found")
    assert answered == ["/x"]


async def test_a_server_alone_says_so(leader: Live) -> None:
    answer = await leader.http.get("/v1/cluster")

    assert answer.json() == {
        "id": None,
        "role": "alone",
        "leader": None,
        "token": None,
        "instances": [],
    }
