"""A failed write is a 504 if it may have been stored, and a 503 only if it certainly was not."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from tables.store_tables import StoreTables
from tests.api.rest import NOW_MS, TOPIC, TOPICS, refusal, serving
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.server.node import services_on

pytestmark = pytest.mark.anyio

SUBSCRIPTION = f"{TOPIC}/subscriptions/s"
MESSAGES = {"messages": ["x"]}
CHANGES = [
    ("PUT", f"{TOPICS}/new", {}),
    ("DELETE", TOPIC, None),
    ("PUT", f"{TOPIC}/properties", {"ttl": 5}),
    ("POST", f"{TOPIC}/publish", MESSAGES),
    ("POST", "/v1/namespaces/ns/publish", {"topics": {"t": ["x"]}}),
    ("PUT", f"{TOPIC}/subscriptions/new", {}),
    ("POST", f"{SUBSCRIPTION}/advance", {"expected_version": "{version}", "after": "00" * 20}),
    ("DELETE", SUBSCRIPTION, None),
    ("POST", "/v1/transactions", {}),
    ("POST", "/v1/transactions/{id}/commit", {}),
    ("POST", "/v1/transactions/{id}/abort", {}),
    ("POST", f"{TOPIC}/store", {**MESSAGES, "transactionWritePointer": "{id}"}),
]


class Server:
    """Services on a store that fails on request, and a client of them."""

    def __init__(self, store: MoodyStore, http: httpx.AsyncClient) -> None:
        self.store = store
        self.http = http
        self.named: dict[str, object] = {}

    async def ask(self, method: str, path: str, body: object) -> httpx.Response:
        text = "" if body is None else json.dumps(body)
        for name, value in self.named.items():
            text = text.replace(f'"{{{name}}}"', json.dumps(value))
            path = path.replace(f"{{{name}}}", str(value))
        headers = {"content-type": "application/json"}
        return await self.http.request(method, path, content=text, headers=headers)


@pytest.fixture
async def server(anyio_backend: object) -> AsyncIterator[Server]:
    store, limits, clock = MoodyStore(), Limits(), ManualClock(NOW_MS)
    services = await services_on(StoreTables(store), limits, clock, CollectorRegistry())
    app = create_app(services, limits, registry=CollectorRegistry(), clock=clock)
    async with (
        serving(app, limits) as (url, _),
        httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
    ):
        server = Server(store, http)
        for method, path in (("PUT", TOPIC), ("PUT", SUBSCRIPTION)):
            assert (await server.ask(method, path, {})).status_code == 200
        started = await server.ask("POST", "/v1/transactions?codec=false", {})
        server.named["id"] = started.json()["transaction_id"]
        server.named["version"] = (await http.get(SUBSCRIPTION)).json()["version"]
        yield server
    store.settle()
    await services.close()


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_write_of_unknown_outcome_is_504_and_those_refused_behind_it_503(
    server: Server, method: str, path: str, body: object
) -> None:
    server.store.fail_next(is_done=True)
    unknown = await server.ask(method, path, body)
    assert refusal(unknown) == (504, "outcome_unknown")
    assert "retry-after" not in unknown.headers

    refused = await server.ask("POST", f"{TOPIC}/publish", MESSAGES)
    assert refusal(refused) == (503, "store_unavailable")
    assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize("is_done", [True, False])
async def test_what_was_503_is_never_there_and_what_was_504_may_be(
    server: Server, *, is_done: bool
) -> None:
    server.store.fail_next(is_done=is_done)
    for payload, status in (("unknown", 504), ("refused", 503), ("refused", 503)):
        answer = await server.ask("POST", f"{TOPIC}/publish", {"messages": [payload]})
        assert answer.status_code == status
    server.store.settle()

    polled = await server.ask("POST", f"{TOPIC}/poll", {})
    assert [m["payload"] for m in polled.json()] == (["unknown"] if is_done else [])


async def test_every_operation_that_changes_something_declares_both(server: Server) -> None:
    paths = (await server.http.get("/openapi.json")).json()["paths"]
    for methods in paths.values():
        for method, operation in methods.items():
            if method != "get" and "503" in operation["responses"]:
                assert "504" in operation["responses"], operation["operationId"]
