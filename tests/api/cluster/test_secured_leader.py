"""Forwarding to a leader that speaks TLS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.cluster.forwarding import Forwarder
from api.http.listener.tls import ServerTls
from tests.api.cluster.standing_by import ID, LIMITS, Following, Known
from tests.api.rest import TOPICS, refusal, serving
from tests.servers.authority import Authority
from tms.core.runtime.tls import TlsFiles
from tms.server.node import open_services
from tms.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@asynccontextmanager
async def standing_by(authority: Authority, ca: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that forwards to a leader, which it trusts by `ca`."""
    cert, key = authority.issue("server").pair
    settings = Settings(tls_cert=cert, tls_key=key, tls_ca=str(ca))
    forwarder = Forwarder(ID, settings.tls_to_others())
    services = await open_services("memory:", LIMITS)
    leader = create_app(services, LIMITS, registry=CollectorRegistry())
    standby = Following(forwarder, cluster=Known()).app
    tls = ServerTls(TlsFiles(cert, key, str(authority.ca)))
    try:
        async with (
            serving(leader, LIMITS, tls=tls) as (secured, _),
            serving(standby, LIMITS, grace_s=0.5) as (url, _),
            httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
        ):
            forwarder.forward_to(secured)
            yield http
    finally:
        await forwarder.close()
        await services.close()


async def test_the_leader_answers_over_tls(anyio_backend: object, authority: Authority) -> None:
    async with standing_by(authority, authority.ca) as http:
        assert (await http.put(f"{TOPICS}/secured")).status_code == 200
        answer = await http.get(TOPICS)

    assert answer.json() == ["secured"]
    assert answer.headers["tms-forwarded-by"] == str(ID)


async def test_a_leader_that_is_not_trusted_is_none(
    anyio_backend: object, authority: Authority, tmp_path: Path
) -> None:
    async with standing_by(authority, Authority(tmp_path / "theirs").ca) as http:
        assert refusal(await http.get(TOPICS)) == (503, "no_leader")
