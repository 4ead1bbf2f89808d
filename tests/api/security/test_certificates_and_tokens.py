"""The principal of a client with a certificate, a token, or both."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from api.app import create_app
from api.http.listener.tls import ServerTls
from tests.api.rest import NOW_MS, TOPIC, refusal, settings_of
from tests.api.security.secured import LIMITS, Server, opened_server, rule_of, serving_server
from tests.manual_clock import ManualClock
from tests.servers.authority import Authority
from tms.core.runtime.tls import TlsFiles
from tms.core.values.topic import TopicId
from tms.security.resources import Action
from tms.security.tokens import new_token
from tms.server.node import open_services

pytestmark = pytest.mark.anyio

PUBLISH = f"{TOPIC}/publish"
BODY = {"messages": ["x"]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture
async def secured(anyio_backend: object, authority: Authority) -> AsyncIterator[Server]:
    """A server that asks for certificates; the rules are for Ann's and Tom."""
    clock = ManualClock(NOW_MS)
    cert, key = authority.issue("server").pair
    tls = ServerTls(TlsFiles(cert, key, str(authority.ca)))
    async with AsyncExitStack() as stack:
        server = await opened_server(stack, "certificates", clock)
        services = await open_services("memory:", LIMITS, clock, settings=settings_of(own=True))
        stack.push_async_callback(services.close)
        await services.messaging.create_topic(TopicId("ns", "t"))
        app = create_app(
            services, LIMITS, registry=server.metrics, clock=clock, access=server.access
        )
        await stack.enter_async_context(serving_server(server, app, tls=tls))
        await server.grants.add_rule(rule_of("ann", Action.PUBLISH))
        yield server


@asynccontextmanager
async def client_of(
    server: Server, authority: Authority, name: str = "", token: str = ""
) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the certificate of a name, and a token, if it has any."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if name:
        context.load_cert_chain(*authority.issue(name, sans="").pair)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(
        base_url=server.url, verify=context, headers=headers, trust_env=False
    ) as http:
        yield http


async def test_a_certificate_says_who_it_is(secured: Server, authority: Authority) -> None:
    async with client_of(secured, authority, "ann") as http:
        for _ in range(3):
            assert (await http.post(PUBLISH, json=BODY)).status_code == 200
        assert (await http.get("/v1/transactions")).status_code == 403
    async with client_of(secured, authority, "eve") as http:
        assert (await http.post(PUBLISH, json=BODY)).status_code == 404
    async with client_of(secured, authority) as http:
        assert refusal(await http.post(PUBLISH, json=BODY)) == (401, "credentials_required")


async def test_a_token_counts_before_a_certificate(secured: Server, authority: Authority) -> None:
    token, kept = new_token("tom")
    await secured.grants.add_token(kept)
    async with client_of(secured, authority, "ann", token) as http:
        assert (await http.post(PUBLISH, json=BODY)).status_code == 404
        await secured.grants.add_rule(rule_of("tom", Action.CONSUME))
        assert (await http.post(PUBLISH, json=BODY)).status_code == 403
        assert (await http.post(f"{TOPIC}/poll", json={})).status_code == 200
        await secured.grants.remove_token(kept.id)
        for _ in range(3):
            answer = await http.post(PUBLISH, json=BODY)
            assert refusal(answer) == (401, "credentials_invalid"), (
                "Ann's certificate is no way out"
            )


@pytest.mark.parametrize(
    "bad", ["wrong", new_token("ann")[0], "tms_x_y"], ids=["wrong", "unknown", "short"]
)
async def test_a_bad_token_is_refused_whoever_shows_it(
    secured: Server, authority: Authority, bad: str
) -> None:
    async with client_of(secured, authority, "ann", bad) as http:
        for _ in range(3):
            answer = await http.post(PUBLISH, json=BODY)
            assert refusal(answer) == (401, "credentials_invalid")


@pytest.mark.parametrize("name", ["server:1", "anonymous", "group:g"])
async def test_a_certificate_of_a_name_that_means_something_else_is_nobodys(
    secured: Server, authority: Authority, name: str
) -> None:
    async with client_of(secured, authority, name) as http:
        for _ in range(2):
            answer = await http.post(PUBLISH, json=BODY)
            assert refusal(answer) == (401, "credentials_required")
    told = [json.loads(line) for line in secured.audited.lines]
    assert [(each["action"], each["status"]) for each in told] == [("authenticate", 401)]
