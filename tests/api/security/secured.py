"""Two servers with access control: a leader, and a follower that seals what it forwards.

Each has a session of its own with one metadata store in memory, as servers of a cluster have.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from api.console.application import beside
from api.http.door.access_control import AccessControl
from tests.api.cluster.standing_by import ID, Following, Known
from tests.api.rest import NOW_MS, Wire, serving, settings_of
from tests.manual_clock import ManualClock
from tests.waiting import until
from tms.core.limits import Limits, PrincipalLimits
from tms.metadata.local import LocalSession
from tms.metadata.memory import open_memory
from tms.security.audit import Audit, Drops
from tms.security.forward_keys import ForwardKeys
from tms.security.forwards import Opener, Sealer
from tms.security.grants import GrantOptions, Grants
from tms.security.quotas import Quotas, SharedBounds
from tms.security.resources import Action, Kind
from tms.security.rules import Effect, Rule
from tms.security.sessions import Sessions
from tms.security.tokens import new_token
from tms.server.node import OpenServices, open_services

ROOT = "root"
OPEN = frozenset(("/", "/ping", "/health", "/ready"))
"""The paths that strangers may request."""
LIMITS = Limits(request_body_s_max=5.0)
_names = count()


def rule_of(
    who: str, *actions: Action, name: str = "*", namespace: str = "ns", effect: str = "allow"
) -> Rule:
    """Return a rule on topics, or on the kind of resource that its actions are for."""
    kinds = {
        Action.READ: Kind.SUBJECT,
        Action.WRITE: Kind.SUBJECT,
        Action.COMPATIBILITY: Kind.SUBJECT,
        Action.DELETE: Kind.SUBJECT,
        Action.TRANSACT: Kind.SERVER,
        Action.TRANSACT_ANY: Kind.SERVER,
        Action.OPERATE: Kind.SERVER,
        Action.GRANT: Kind.SERVER,
    }
    kind = kinds.get(actions[0], Kind.TOPIC)
    return Rule(
        id="",
        who=who,
        effect=Effect(effect),
        actions=frozenset(actions),
        kind=kind,
        namespace=namespace if kind is Kind.TOPIC else "",
        name="" if kind is Kind.SERVER else name,
    )


class Lines:
    """Keeps the records of an audit."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> None:
        self.lines.append(line)

    def reopen(self) -> None:
        """Keep on."""

    async def close(self) -> None:
        """Keep what there is."""


@dataclass
class Server:
    """The parts of one of them."""

    store: LocalSession
    grants: Grants
    keys: ForwardKeys
    access: AccessControl
    audited: Lines
    metrics: CollectorRegistry
    url: str = ""
    http: httpx.AsyncClient = field(init=False)

    async def connect(self) -> Wire:
        url = httpx.URL(self.url)
        return Wire(*await asyncio.open_connection(url.host, url.port))


@dataclass
class Pair:
    """A leader, and a follower."""

    clock: ManualClock
    services: OpenServices
    leader: Server
    standby: Server
    forwarder: Forwarder
    root: dict[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> dict[str, Server]:
        return {"directly": self.leader, "forwarded": self.standby}

    async def token(self, principal: str, **more: Any) -> dict[str, str]:
        """Return headers with a token that both know."""
        token, kept = new_token(principal, **more)
        await self.leader.grants.add_token(kept)
        await until(lambda: self.standby.grants.token(kept.id) is not None)
        return {"authorization": f"Bearer {token}"}

    async def revoke(self, headers: dict[str, str]) -> None:
        """Make a token invalid at both."""
        token_id = headers["authorization"].split("_")[1]
        await self.leader.grants.remove_token(token_id)
        await until(lambda: self.standby.grants.token(token_id) is None)

    async def allow(self, who: str, *actions: Action, **more: Any) -> str:
        """Add a rule at both, and return its id."""
        rule = await self.leader.grants.add_rule(rule_of(who, *actions, **more))
        await until(lambda: rule in self.standby.grants.rules)
        return rule.id

    async def disallow(self, rule_id: str) -> None:
        """Revoke a rule at both."""
        await self.leader.grants.remove_rule(rule_id)
        await until(lambda: all(rule.id != rule_id for rule in self.standby.grants.rules))


async def opened_server(
    stack: AsyncExitStack,
    name: str,
    clock: ManualClock,
    *,
    is_required: bool = True,
    limits: PrincipalLimits | None = None,
    bounds: SharedBounds | None = None,
    stale_s_max: float = 60.0,
    are_docs_open: bool = False,
    **sessions: Any,
) -> Server:
    """Open the access control of a server, on the metadata store with this name."""
    store = open_memory(name, clock)
    stack.push_async_callback(store.close)
    options = GrantOptions(superusers=frozenset((ROOT,)), stale_s_max=stale_s_max)
    grants = Grants(options, clock)
    stack.push_async_callback(grants.close)
    await grants.open(store)
    keys = ForwardKeys(store, clock)
    stack.push_async_callback(keys.close)
    await keys.open()
    lines = Lines()
    access = AccessControl(
        Sessions(grants, clock, **sessions),
        grants,
        clock,
        is_required=is_required,
        are_docs_open=are_docs_open,
        quotas=Quotas(limits or PrincipalLimits(), clock, bounds),
        audit=Audit([lines], clock, Drops(clock)),
    )
    return Server(store, grants, keys, access, lines, CollectorRegistry())


@asynccontextmanager
async def serving_server(server: Server, app: Any, **options: Any) -> AsyncIterator[None]:
    """Serve the application of a server, and give the server a client."""
    async with (
        serving(app, LIMITS, grace_s=0.5, **options) as (url, _),
        httpx.AsyncClient(
            base_url=url, headers={"accept-encoding": "identity"}, trust_env=False, verify=False
        ) as http,
    ):
        server.url, server.http = url, http
        yield


@asynccontextmanager
async def pair_of_servers(
    *, is_required: bool = True, limits: PrincipalLimits | None = None, **options: Any
) -> AsyncIterator[Pair]:
    """Open both and serve them."""
    clock, name = ManualClock(NOW_MS), f"secured{next(_names)}"
    asked: dict[str, Any] = {"is_required": is_required, "limits": limits, **options}
    async with AsyncExitStack() as stack:
        leader = await opened_server(stack, name, clock, **asked)
        standby = await opened_server(stack, name, clock, **asked)
        services = await open_services("memory:", LIMITS, clock, settings=settings_of(own=True))
        stack.push_async_callback(services.close)
        forwarder = Forwarder(ID, None, Sealer(standby.keys, str(ID), clock))
        app = create_app(
            services, LIMITS, registry=leader.metrics, clock=clock, access=leader.access
        )
        beside(app)
        second = Following(
            forwarder, LIMITS, cluster=Known(), registry=standby.metrics, access=standby.access
        )
        stack.push_async_callback(second.close)
        stopping = services.messaging.stop_waiting
        await stack.enter_async_context(serving_server(leader, app, on_stopping=stopping))
        await stack.enter_async_context(serving_server(standby, second.app))
        for each in (leader, standby):
            each.access._opener = Opener(each.keys, each.url, clock)  # now that there is a URL
        second.hear(leader.url)
        pair = Pair(clock, services, leader, standby, forwarder)
        pair.root = await pair.token(ROOT)
        yield pair


@pytest.fixture
async def pair(anyio_backend: object) -> AsyncIterator[Pair]:
    """Servers that require every caller to authenticate."""
    async with pair_of_servers() as servers:
        yield servers


@pytest.fixture
async def optional(anyio_backend: object) -> AsyncIterator[Pair]:
    """Servers at which callers may be anonymous."""
    async with pair_of_servers(is_required=False) as servers:
        yield servers
