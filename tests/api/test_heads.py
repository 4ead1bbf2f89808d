"""Heads of requests that are malformed, too large, too slow, or never come."""

import asyncio
import json

import pytest

from api import serve
from api.direct import HEAD_BYTES_MAX
from tests.api.rest import TOPIC, Live, Wire, live

pytestmark = pytest.mark.anyio


async def refused(wire: Wire) -> tuple[int, str]:
    """Return how a connection was refused, which is closed by that."""
    status, headers, body = await wire.answer()
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert await wire.rest() == b""
    await wire.close()
    return status, json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "request_line", [b"no http at all\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
async def test_what_is_no_http_is_told_so(served: Live, request_line: bytes) -> None:
    wire = await served.connect()
    wire.writer.write(request_line)

    assert await refused(wire) == (400, "malformed_request")


async def test_a_head_without_end_is_refused_at_its_cap(served: Live) -> None:
    wire = await served.connect()
    wire.writer.write(f"GET {TOPIC} HTTP/1.1\r\n".encode())
    refusing = asyncio.create_task(refused(wire))
    sent = 0
    # Not faster than it is read: what is unread when a connection is closed takes the answer along.
    while not (await asyncio.wait([refusing], timeout=0.002))[0]:
        line = b"x-%d: %s\r\n" % (sent, b"v" * 4000)
        wire.writer.write(line)
        sent += len(line)

    assert await refusing == (431, "head_too_large")
    assert HEAD_BYTES_MAX <= sent < HEAD_BYTES_MAX * 2


async def test_many_requests_are_no_large_head(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    for _ in range(HEAD_BYTES_MAX // 1000 + 10):
        await wire.send("GET", TOPIC, headers={"x-filler": "v" * 1000})
        assert (await wire.answer())[0] == 200
    await wire.close()


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nhost:"])
async def test_a_connection_without_a_request_is_closed_in_time(
    anyio_backend: object, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    monkeypatch.setattr(serve, "KEEP_ALIVE_S", 0.1)
    async with live() as served:
        wire = await served.connect()
        wire.writer.write(begin)
        assert await wire.rest() == b""
        await wire.close()

        wire = await served.connect()
        await wire.send("GET", "/health")
        assert (await wire.answer())[0] == 200
        wire.writer.write(begin)
        assert await wire.rest() == b""
        await wire.close()


async def test_a_connection_at_work_is_not_closed_for_its_time(
    anyio_backend: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "KEEP_ALIVE_S", 0.05)
    async with live() as served:
        await served.create()
        wire = await served.connect()
        await wire.send(
            "POST", f"{TOPIC}/poll?wait=0.3", b"{}", {"content-type": "application/json"}
        )
        assert (await wire.answer())[0] == 200
        await wire.close()
