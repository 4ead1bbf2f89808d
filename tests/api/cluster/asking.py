"""Asking another server, on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from api.cluster.upstream import Upstream
from api.cluster.upstream_connection import Answer
from tests.api.cluster.peers import Peer


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@contextmanager
def way_to(peer: Peer) -> Iterator[Upstream]:
    way = Upstream(peer.url)
    try:
        yield way
    finally:
        way.close()


async def ask(way: Upstream, body: bytes = b"", method: str = "POST") -> Answer:
    return await way.send(method, b"/p?q", [(b"a", b"1"), (b"a", b"2")], body)


async def body_of(answer: Answer) -> bytes:
    return b"".join([part async for part in answer.aiter_raw()])


async def streamed(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)
