"""One hostile request of 64 KB for each operation and each field that comes from outside.

Each gets the right status, after a bounded amount of work, in an answer that shows no credentials;
a refused request has changed nothing. Servers that require authentication refuse them all.
"""

import asyncio
import re
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest

from api.app import OPERATIONS
from api.registry.application import operations_of
from api.registry.document import registry_document
from tests.api.registry.live import LIMITS, Api, served
from tests.api.rest import TOPIC, TOPICS, Live, Wire, live
from tests.api.security.hostile import SECRET
from tests.api.security.hostile_requests import HostileRequest, requests_of
from tests.api.security.secured import OPEN, Server, pair_of_servers
from tests.api.security.things import make_things, things
from tests.registry.registries import record
from tests.waiting import in_time
from tms import __version__
from tms.core.limits import Limits

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CPU_S_MAX = 0.5
"""The time of one request. A linear one takes a few ms, a quadratic one takes seconds."""
REFUSED = range(400, 500)
OF_STRANGERS = {400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 417, 421, 431, 501}
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


async def answered(server: "Live | Server | Registry", request: HostileRequest) -> int:
    """Check what the answer to a request shows, and the work it took; return its status."""
    began_s = thread_time()
    wire = await server.connect()
    async with in_time():
        wire.writer.write(request.whole)
        head = await wire.reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is not None:
            body = await wire.reader.readexactly(int(length[1]))
        else:
            body = await wire.reader.readuntil(b"0\r\n\r\n")
    wire.writer.transport.abort()
    took_s = thread_time() - began_s
    assert took_s < CPU_S_MAX, (request.name, took_s)
    status = int(head.split()[1])
    assert status < 500, (request.name, head, body[:1000])
    if status in REFUSED:
        assert SECRET.encode() not in head + body, (request.name, body[:1000])
    return status


REQUEST_ID = re.compile('"request_id": "[^"]*"')


async def state_of(rest: Live) -> Any:
    """Return what there is."""
    asked = ("/v1/namespaces", TOPICS, f"{TOPIC}/subscriptions", TOPIC, "/v1/transactions")
    answers = [await rest.http.get(path) for path in asked]
    answers.append(await rest.http.post(f"{TOPIC}/poll", json={}))
    return [REQUEST_ID.sub("", answer.text) for answer in answers]


async def test_if_nobody_is_asked_what_is_refused_changes_nothing() -> None:
    async with live(Limits(poll_wait_s_max=0.01), own=True) as rest:
        await rest.create()
        await rest.http.put(f"{TOPIC}/subscriptions/s")
        found = [(await answered(rest, each), each) for _, each in requests_of(OPERATIONS)]
        refused = [request for status, request in found if status in REFUSED]
        assert len(refused) > 5 * len(OPERATIONS)
        before = await state_of(rest)
        for request in refused:
            if request.method != "GET":
                await answered(rest, request)
        assert await state_of(rest) == before


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_where_callers_are_asked_strangers_learn_and_change_nothing(way: str) -> None:
    async with pair_of_servers() as pair:
        await make_things(pair)
        before = await things(pair)
        for operation, request in requests_of(OPERATIONS):
            status = await answered(pair.servers[way], request)
            assert status in OF_STRANGERS or operation.path in OPEN, (request.name, status)
        assert await things(pair) == before
        for each in pair.servers.values():
            told = b"".join(each.audited.lines)
            assert SECRET.encode() not in told
            assert len(told) < 64 * 1024


class Registry:
    """A registry without access control."""

    def __init__(self, api: Api) -> None:
        self.http = api.http
        limited: Any = SimpleNamespace(limits=LIMITS)
        self.operations = operations_of(limited)

    async def connect(self) -> Wire:
        url = self.http.base_url
        return Wire(*await asyncio.open_connection(url.host, url.port))

    async def state(self) -> Any:
        """Return what there is."""
        asked = ("/subjects?deleted=true", "/schemas?deleted=true", "/config", "/mode", "/contexts")
        return [(await self.http.get(path)).text for path in asked]


async def test_what_a_registry_refuses_changes_nothing() -> None:
    async with served() as api:
        await api.register("s", record("a"))
        registry = Registry(api)
        schemas = registry_document(registry.operations)["components"]["schemas"]
        requests = [request for _, request in requests_of(registry.operations, schemas)]
        found = [(await answered(registry, each), each) for each in requests]
        refused = [request for status, request in found if status in REFUSED]
        assert len(refused) > 3 * len(registry.operations)
        before = await registry.state()
        for request in refused:
            if request.method != "GET":
                await answered(registry, request)
        assert await registry.state() == before


async def test_a_path_shows_no_password_however_it_is_written() -> None:
    targets = (
        f"/zk://me:{SECRET}@a/b",
        f"/zk%3A%2F%2Fme%3a{SECRET}%40a%2fb",
        f"/zk:/%2fme:{SECRET}%40a",
    )
    async with pair_of_servers() as pair, live() as rest:
        for target in targets:
            request = HostileRequest(target, "GET", target, {})
            assert await answered(rest, request) == 404
            for server in pair.servers.values():
                assert await answered(server, request) == 401
        for each in pair.servers.values():
            assert each.audited.lines
            assert SECRET.encode() not in b"".join(each.audited.lines)


@pytest.mark.parametrize("are_docs_open", [False, True])
async def test_strangers_are_not_told_the_version(*, are_docs_open: bool) -> None:
    async with pair_of_servers(are_docs_open=are_docs_open) as pair:
        for server in pair.servers.values():
            for path in (*OPEN, "/docs", "/openapi.json", "/metrics", "/nowhere"):
                answer = await server.http.get(path)
                assert __version__ not in answer.text + str(answer.headers), path
            tried = (await server.http.get("/")).json()["try"]
            assert all("Bearer $TMS_TOKEN" in line for line in tried if line.startswith("curl"))
        if not are_docs_open:
            told = (await pair.leader.http.get("/openapi.json", headers=pair.root)).json()
            assert told["info"]["version"] == __version__
