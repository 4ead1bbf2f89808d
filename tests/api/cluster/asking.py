"""Asking another server, on both event loops."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from tests.api.cluster.peers import Peer
from tests.waiting import turns
from tms.outgoing.answer import Answer
from tms.outgoing.upstream import Upstream


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


async def ask(
    way: Upstream,
    body: bytes | AsyncIterator[bytes] = b"",
    method: str = "POST",
    length: int | None = None,
) -> Answer:
    """Send a request; `length` is called with its body's length if it is streamed."""
    fields = b"a: 1\r\na: 2\r\n"
    if length is not None:
        fields += b"content-length: %d\r\n" % length
    return await way.send(method, b"/p?q", fields, body, is_counted=length is not None)


async def body_of(answer: Answer) -> bytes:
    return b"".join([part async for part in answer.aiter_raw()])


async def streamed(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        await turns()
        yield part
