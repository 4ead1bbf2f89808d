"""Twice as many of anything cost an operation about twice the work, for any caller, and never block
others for long. In the gate the work is counted in lines of Python, so work in C does not count; in
the long run it is processor time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import thread_time
from types import SimpleNamespace
from typing import Any, Protocol

import httpx
import pytest

from api.app import OPERATIONS
from api.console.application import operations as console_operations
from api.console.browser_sessions import BrowserSessions
from api.console.console import Console
from api.registry.application import operations_of
from api.registry.document import registry_document
from tests.api.console.site import site
from tests.api.doors import Doors
from tests.api.registry.live import LIMITS
from tests.api.registry.live import served as registry_served
from tests.api.rest import Wire
from tests.api.security.hostile import FLOOR_S, GROWTH_MAX, is_short
from tests.api.security.hostile_requests import HostileRequest
from tests.api.security.many_requests import Many, many_requests
from tests.api.security.secured import Pair
from tests.api.security.things import make_things
from tests.registry.registries import record
from tests.waiting import in_time
from tests.work import counted
from tms.core.runtime.clock import SystemClock
from tms.security.resources import Action
from tms.server.loop_steps import LoopSteps
from tms.server.node import OpenServices

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_collection")]
COUNT = 4_000
FEW = 250
GATE_STEP = 4
"""The gate makes one in this number of requests."""
ALL = list(many_requests(OPERATIONS))


class Target(Protocol):
    """A server, of whatever it serves."""

    async def connect(self) -> Wire:
        """Open a connection to it."""


class At:
    """A server that is reached by a URL."""

    def __init__(self, url: str) -> None:
        self._url = httpx.URL(url)

    async def connect(self) -> Wire:
        return Wire(*await asyncio.open_connection(self._url.host, self._url.port))


async def seconds_of(
    server: Target, request: HostileRequest, headers: Mapping[str, str]
) -> tuple[float, int]:
    """Return the processor time of a request and of its answer, and the status."""
    sent = HostileRequest(
        request.name,
        request.method,
        request.target,
        {**request.headers, **headers, "connection": "close"},
        request.body,
    )
    data = sent.whole
    wire = await server.connect()
    began_s = thread_time()
    async with in_time():
        wire.writer.write(data)
        answer = await wire.reader.read()
    took_s = thread_time() - began_s
    await wire.close()
    return took_s, int(answer[9:12])


async def check(server: Target, requests: Sequence[Many], headers: Mapping[str, str]) -> None:
    """Measure each request at `COUNT` and at twice that, again if the second one took long."""
    grown = {}
    for many in requests:
        for _ in range(3):
            measured, steps = [], LoopSteps(thread_time)
            for count in (COUNT, 2 * COUNT):
                with steps.measured():
                    took_s, status = await seconds_of(server, many.of(count), headers)
                assert status < 500, many.name
                measured.append(took_s)
            is_linear = measured[1] <= max(FLOOR_S, GROWTH_MAX * measured[0])
            if is_linear and is_short(steps.longest_step_s):
                break
        else:
            grown[many.name] = (*measured, steps.longest_step_s)
    assert not grown


async def check_lines(server: Target, requests: Sequence[Many], headers: Mapping[str, str]) -> None:
    """Count the lines of each request at `FEW` and at twice that."""
    grown = {}
    for many in requests:
        lines = []
        for count in (2 * FEW, FEW, 2 * FEW):  # the first run makes objects that stay
            with counted() as work:
                _, status = await seconds_of(server, many.of(count), headers)
            assert status < 500, many.name
            lines.append(work.lines)
        if lines[2] > GROWTH_MAX * lines[1]:
            grown[many.name] = lines
    assert not grown


async def headers_of(pair: Pair, who: str) -> Mapping[str, str]:
    """Return the headers that authenticate ann, who may do everything."""
    await make_things(pair)
    if who != "ann":
        return {}
    for action in Action:
        await pair.allow("ann", action)
    return await pair.token("ann")


Check = Callable[[Target, Sequence[Many], Mapping[str, str]], Awaitable[None]]


def share(many: Sequence[Many], check_growth: Check) -> Sequence[Many]:
    """Return the part of the requests that a check makes."""
    return many[::GATE_STEP] if check_growth is check_lines else many


both = pytest.mark.parametrize(
    "check_growth", [check_lines, pytest.param(check, marks=pytest.mark.slow)]
)


@both
@pytest.mark.parametrize("who", ["a stranger", "ann"])
async def test_of_each_operation(pair: Pair, who: str, check_growth: Check) -> None:
    many = share(ALL, check_growth)
    await check_growth(pair.servers["directly"], many, await headers_of(pair, who))


@both
async def test_of_each_operation_of_the_registry(check_growth: Check) -> None:
    async with registry_served() as api:
        await api.register("s", record("a"))
        limited: Any = SimpleNamespace(limits=LIMITS)
        operations = operations_of(limited)
        schemas = registry_document(operations)["components"]["schemas"]
        many = share(list(many_requests(operations, schemas)), check_growth)
        await check_growth(At(str(api.http.base_url)), many, {})


@both
@pytest.mark.parametrize("who", ["a stranger", "anybody"])
async def test_of_each_page_and_form(who: str, check_growth: Check) -> None:
    doors = Doors() if who == "a stranger" else None
    if doors is not None:
        await doors.open()
    async with site(doors) as opened:
        assert isinstance(opened.services, OpenServices)
        schemas, clock = opened.services.schemas, SystemClock()
        await opened.create()
        await schemas.register("s", record("a"))
        console = Console(clock=clock, asks_who=False, sessions=BrowserSessions(clock))
        rows = console_operations(console, opened.app, schemas)
        pages = [replace(each, path=f"/console{each.path}") for each in rows]
        many = share(list(many_requests(pages)), check_growth)
        await check_growth(At(opened.url), many, {})
