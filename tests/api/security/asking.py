"""Requests that are sent several times on one connection, and polls that wait."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from tests.api.rest import TOPIC, Wire
from tests.api.security.secured import Pair, Server
from tests.waiting import until
from tms.core.values.topic import TopicId

T = TopicId("ns", "t")
TIMES = 3
"""The first request is unknown, the second is cached, and the third is found in the cache."""


async def statuses(
    server: Server, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> list[int]:
    """Send a request three times on one connection, and return the statuses."""
    wire: Wire = await server.connect()
    found = []
    for _ in range(TIMES):
        if wire.reader.at_eof():
            await wire.close()
            wire = await server.connect()
        sent = {"content-type": "application/json", **headers} if body else headers
        await wire.send(method, path, body, sent)
        found.append(await status_of(wire))
    await wire.close()
    return found


async def status_of(wire: Wire) -> int:
    """Read one answer to its end, and return its status."""
    head = (await wire.reader.readuntil(b"\r\n\r\n")).decode().lower()
    if "transfer-encoding: chunked" in head:
        await wire.reader.readuntil(b"0\r\n\r\n")
    elif "content-length: " in head:
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        await wire.reader.readexactly(int(length))
    return int(head.split()[1])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the rights of waiting requests again after a very short time."""
    for module in ("api.resources.waiting", "api.resources.stream", "api.cluster.forwarding"):
        monkeypatch.setattr(f"{module}.CHECK_S", 0.02)


def waiting(pair: Pair) -> int:
    state = pair.services.messaging._states.loaded(T)
    return len(state._waiters) if state else 0


async def waiting_poll(
    pair: Pair, server: Server, headers: dict[str, str]
) -> "asyncio.Task[httpx.Response]":
    """Start a poll that waits for a message."""
    polling = asyncio.create_task(
        server.http.post(f"{TOPIC}/poll?wait=20", json={}, headers=headers)
    )
    await until(lambda: waiting(pair) == 1)
    return polling


async def take_away(pair: Pair, what: str, headers: dict[str, str]) -> int:
    """Revoke a token, let it expire, or remove the first rule.

    Return the status of a caller that continues anyway.
    """
    if what == "token":
        await pair.revoke(headers)
        return 401
    if what == "end":
        pair.clock.advance(1000)
        return 401
    await pair.disallow(next(rule.id for rule in pair.leader.grants.rules))
    return 404
