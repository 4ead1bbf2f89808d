"""A server that speaks TLS, for the tests of TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.exchange import Exchange
from api.http.listener.tls import ServerTls
from api.http.protocol.peer import Peer
from tests.api.rest import Wire, serving
from tests.servers.authority import Authority, Issued
from tms.core.limits import Limits
from tms.core.runtime.tls import TlsFiles, client_context
from tms.server.node import open_services


@dataclass
class Secured:
    """A server that speaks TLS, and the callers that it has seen."""

    port: int
    tls: ServerTls
    files: Issued
    authority: Authority
    peers: list[Peer]

    async def connect(self, shown: Issued | None = None, ca: Path | None = None) -> Wire:
        pair = shown.pair if shown is not None else ("", "")
        context = client_context(str(ca or self.authority.ca), *pair)
        return Wire(
            *await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
            )
        )

    async def plain(self) -> Wire:
        return Wire(*await asyncio.open_connection("127.0.0.1", self.port))

    async def serial(self) -> str:
        """Return the number of the certificate that new connections get."""
        wire = await self.connect()
        shown = wire.writer.get_extra_info("peercert")
        await wire.close()
        return str(shown["serialNumber"])


@asynccontextmanager
async def secured(
    authority: Authority, *, client_ca: Path | None = None, limits: Limits | None = None
) -> AsyncIterator[Secured]:
    limits = limits or Limits()
    files = authority.issue("server")
    tls = ServerTls(TlsFiles(*files.pair, client_ca=str(client_ca or "")))
    services = await open_services("memory:", limits)
    app = create_app(services, limits, registry=CollectorRegistry())
    peers: list[Peer] = []
    endpoint, _ = app.routes.find("GET", "/ping")
    answer = endpoint._handler

    async def noting(exchange: Exchange) -> None:
        peers.append(exchange.peer)
        await answer(exchange)

    endpoint._handler = noting
    try:
        async with serving(app, limits, tls=tls) as (url, _):
            assert url.startswith("https://127.0.0.1:")
            port = int(url.rpartition(":")[2])
            yield Secured(port, tls, files, authority, peers)
    finally:
        await services.close()
