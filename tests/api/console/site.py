"""A server with the console, and as much of a browser as tests need."""

import html
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.routing import route_alone
from api.console.application import beside
from api.http.application import Application
from api.http.context import Options
from api.http.door.callers import Callers
from tests.api.doors import Doors
from tests.api.rest import serving, settings_of
from tests.sharding.three_shards import open_three
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock, SystemClock
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.cluster import Cluster
from tms.core.text.hosts import networks_of
from tms.core.values.shards import ShardBy
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, open_services
from tms.server.sharded import ShardedServices

NS = "ns"
TOPIC = TopicId(NS, "t")
PAGE = "namespaces/ns/topics/t"
AnyServices = OpenServices | ShardedServices
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def csrf_of(page: str) -> str | None:
    """Return the token of a page's forms; None if it has no form."""
    found = _CSRF.search(page)
    return None if found is None else html.unescape(found[1])


class Browser:
    """A browser: it has its own cookies, and knows the token of the page that it has open."""

    def __init__(self, url: str) -> None:
        self.http = httpx.AsyncClient(
            base_url=url, trust_env=False, follow_redirects=True, verify=False
        )
        self.csrf = ""

    async def get(self, path: str, **query: str) -> str:
        """Open a page below the console, which must exist, and return its HTML."""
        answer = await self.ask(path, **query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def ask(self, path: str, **query: str) -> httpx.Response:
        answer = await self.http.get(f"/console/{path}", params=query or None)
        self.csrf = csrf_of(answer.text) or self.csrf
        return answer

    async def post(
        self, path: str, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a form with the token of the page that is open, unless a field says another."""
        data = {"csrf": self.csrf, **(fields or {})}
        return await self.http.post(f"/console/{path}", data=data, headers=headers)

    async def sign_in(self, token: str) -> httpx.Response:
        return await self.http.post("/console/sign-in", data={"token": token})


class Site:
    """A server with the console."""

    def __init__(
        self, url: str, services: AnyServices, app: Application, doors: Doors | None
    ) -> None:
        self.url = url
        self.services = services
        self.app = app
        self.doors = doors
        self.browsers: list[Browser] = []
        self.browser = self.new_browser()

    def new_browser(self) -> Browser:
        browser = Browser(self.url)
        self.browsers.append(browser)
        return browser

    async def as_somebody(self, principal: str) -> Browser:
        """Return a browser in which somebody is signed in."""
        assert self.doors is not None
        browser = self.new_browser()
        answer = await browser.sign_in(await self.doors.token(principal))
        assert answer.status_code == 200
        return browser

    async def create(self, topic_id: TopicId = TOPIC, **properties: object) -> None:
        await self.services.messaging.create_topic(topic_id, properties)


@asynccontextmanager
async def site(
    doors: Doors | None = None,
    *,
    store: str = "memory:",
    limits: Limits | None = None,
    is_read_only: bool = False,
    own: bool = True,
    clock: Clock | None = None,
    has_registry: bool = True,
    cluster: Cluster | None = None,
    certificates: Sequence[str] = (),
    shard_by: ShardBy | None = None,
    proxies: str = "",
) -> AsyncIterator[Site]:
    """Serve the console on 127.0.0.1, on a store in memory unless `store` is another."""
    limits, registry, settings = limits or Limits(), CollectorRegistry(), settings_of(own=own)
    clock = trusted(clock or SystemClock(), limits)
    services: AnyServices
    if shard_by is None:
        services = await open_services(store, limits, clock, settings=settings, registry=registry)
    else:
        services = await open_three(shard_by, limits, clock, settings, registry)
    access = None if doors is None else doors.access()
    options = Options(
        registry=registry,
        clock=clock,
        access=access,
        cluster=cluster,
        certificates=certificates,
        callers=Callers(proxies=networks_of(proxies)),
    )
    app = create_app(services, limits, **options)
    schemas = services.schemas if has_registry else None
    beside(app, is_read_only=is_read_only, registry=schemas)
    if services.sharding is not None:
        route_alone(app, services.sharding, services.in_shard)
    try:
        async with serving(app, limits, on_stopping=services.stop_waiting) as (url, _):
            opened = Site(url, services, app, doors)
            try:
                yield opened
            finally:
                for browser in opened.browsers:
                    await browser.http.aclose()
    finally:
        await services.close()
