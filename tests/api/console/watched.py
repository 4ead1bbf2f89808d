"""A server with the console and a clock that tests move, and a browser of it."""

import html
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from api.http.application import Application
from tests.api.console.site import TOPIC, csrf_of, site
from tests.api.doors import Doors
from tests.api.rest import NOW_MS
from tests.manual_clock import ManualClock
from tests.waiting import WAIT_S_MAX
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.server.node import OpenServices
from tms.watch import watch


class Watched:
    """A server, and a visitor of its console."""

    def __init__(
        self, services: OpenServices, app: Application, clock: ManualClock, http: httpx.AsyncClient
    ) -> None:
        self.services = services
        self.app = app
        self.watch = app.context.watch
        self.clock = clock
        self.http = http

    async def page(self, path: str = "", **query: str) -> str:
        """Return a page below the console, which must exist."""
        answer = await self.http.get(f"/console{path}", params=query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def post(self, page: str, path: str, /, **fields: str) -> httpx.Response:
        """Send a form to a path below the console, with the token of an open page."""
        csrf = csrf_of((await self.http.get(f"/console{page}")).text)
        data = fields if csrf is None else {"csrf": csrf, **fields}
        return await self.http.post(f"/console{path}", data=data)

    async def sign_in(self, token: str) -> None:
        """Sign in as somebody else; later requests are theirs."""
        self.http.cookies.clear()
        answer = await self.http.post("/console/sign-in", data={"token": token})
        assert answer.status_code == 303

    def passes(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))

    async def status(self, **headers: str) -> dict[str, Any]:
        """Return the server's status, after letting cached figures expire."""
        self.passes(10)
        answer = await self.http.get("/v1/status", headers=headers)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def found(self, **headers: str) -> list[tuple[str, str]]:
        """Return the kind and the place of each finding."""
        told = await self.status(**headers)
        return [(each["kind"], each["where"]) for each in told["findings"]]

    async def start(self, **asked: Any) -> int:
        """Start a transaction with a long timeout, and return its id."""
        request = StartRequest(timeout_s=24 * 3600, **asked)
        return (await self.services.transactions.start(request)).transaction_id

    async def publish(self, *payloads: bytes, pointer: int | None = None) -> Sequence[bytes]:
        return await self.services.messaging.publish(TOPIC, payloads or (b"m",), pointer)


def charts_of(page: str) -> dict[str, Any]:
    """Return the points of each chart by its title."""
    found = re.findall(r'data-chart="([^"]*)"[^>]*aria-label="([^"]*?) in the last hour', page)
    return {title: json.loads(html.unescape(points)) for points, title in found}


@asynccontextmanager
async def watched(
    doors: Doors | None = None,
    *,
    store: str = "memory:",
    limits: Limits | None = None,
    is_read_only: bool = False,
    certificates: Sequence[str] = (),
) -> AsyncIterator[Watched]:
    """Serve the console on 127.0.0.1, with a topic.

    Its pages wait for a fresh look at readers, however long it takes, and never show an older one.
    """
    clock = ManualClock(NOW_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "PATIENCE_S", WAIT_S_MAX)
        async with (
            site(
                doors,
                store=store,
                limits=limits,
                is_read_only=is_read_only,
                clock=clock,
                has_registry=False,
                certificates=certificates,
            ) as opened,
            httpx.AsyncClient(base_url=opened.url, trust_env=False, verify=False) as http,
        ):
            assert isinstance(opened.services, OpenServices)
            await opened.create()
            yield Watched(opened.services, opened.app, clock, http)
