"""Heads of requests that are malformed, too large or too slow, or never arrive."""

import asyncio
import contextlib
import json
from typing import cast

import pytest

from tests.api.rest import TOPIC, Live, Wire, live
from tests.skipping_loop import SKIPPING, skip, skip_until
from tests.waiting import turns, until
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio
HEAD_BYTES_MAX = Limits().request_head_bytes_max


HEAD_S = Limits().request_head_s_max
skipping = pytest.mark.parametrize("anyio_backend", [SKIPPING])


async def refused(wire: Wire) -> tuple[int, str]:
    """Return how a connection was refused; the refusal must close it."""
    status, headers, body = await wire.answer()
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert await wire.rest() == b""
    await wire.close()
    return status, json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "request_line", [b"no http at all\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
async def test_what_is_not_http_is_answered_so(served: Live, request_line: bytes) -> None:
    wire = await served.connect()
    wire.writer.write(request_line)

    assert await refused(wire) == (400, "malformed_request")


async def test_a_head_without_end_is_refused_at_its_cap(served: Live) -> None:
    wire = await served.connect()
    wire.writer.write(f"GET {TOPIC} HTTP/1.1\r\n".encode())
    refusing = asyncio.create_task(refused(wire))
    sent = 0
    # Send no faster than the server reads: closing a connection with unread bytes loses the answer.
    while not (await asyncio.wait([refusing], timeout=0.002))[0]:
        line = b"x-%d: %s\r\n" % (sent, b"v" * 4000)
        wire.writer.write(line)
        sent += len(line)

    assert await refusing == (431, "head_too_large")
    assert HEAD_BYTES_MAX <= sent < HEAD_BYTES_MAX * 2


@pytest.mark.parametrize("path", ["/health", f"{TOPIC}/publish"])
async def test_the_cap_of_a_head_is_set_and_reported(anyio_backend: object, path: str) -> None:
    async with live(Limits(request_head_bytes_max=1000)) as served:
        await served.create()
        wire = await served.connect()
        await wire.send("POST", path, b"{}" * 1000, {"x-filler": "v" * 1000})
        status, _, body = await wire.answer()
        assert await wire.rest() == b""
        await wire.close()

    assert status == 431
    assert json.loads(body)["error"]["detail"] == {"request_head_bytes_max": 1000}


async def test_a_large_body_makes_no_large_head(anyio_backend: object) -> None:
    async with live(Limits(request_head_bytes_max=1000)) as served:
        await served.create()
        wire = await served.connect()
        for _ in range(3):
            body = json.dumps({"messages": ["x" * 2000]}).encode()
            await wire.send("POST", f"{TOPIC}/publish", body, {"content-type": "application/json"})
            assert (await wire.answer())[0] == 200
        await wire.close()


async def test_many_requests_are_not_a_large_head(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    for _ in range(HEAD_BYTES_MAX // 1000 + 10):
        await wire.send("GET", TOPIC, headers={"x-filler": "v" * 1000})
        assert (await wire.answer())[0] == 200
    await wire.close()


async def used(served: Live) -> Wire:
    """Return a connection with one answered request; a stall may have closed earlier ones."""

    async def answered() -> Wire | None:
        wire = await served.connect()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await wire.send("GET", "/health")
            assert (await wire.answer())[0] == 200
            return wire
        wire.writer.transport.abort()
        return None

    return cast(Wire, await until(answered))


@skipping
@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nhost:"])
async def test_a_connection_without_a_request_is_closed_in_time(
    anyio_backend: object, begin: bytes
) -> None:
    async with live() as served:
        for connected in (served.connect, lambda: used(served)):
            wire = await connected()
            wire.writer.write(begin)
            await turns(20)
            ending = asyncio.ensure_future(wire.rest())
            skip(HEAD_S / 2)
            await turns(20)
            assert not ending.done()
            await skip_until(ending, HEAD_S)
            assert await ending == b""
            await wire.close()


@skipping
async def test_a_connection_at_work_is_not_closed_for_its_time(anyio_backend: object) -> None:
    async with live(Limits(poll_wait_s_max=2 * HEAD_S)) as served:
        await served.create()
        wire = await used(served)
        path = f"{TOPIC}/poll?wait={2 * HEAD_S:g}"
        await wire.send("POST", path, b"{}", {"content-type": "application/json"})
        await served.until(lambda: served.waiters() == 1)
        skip(1.5 * HEAD_S)
        await turns(20)
        await served.publish(b"late")
        status, _, body = await wire.answer()
        assert (status, len(json.loads(body))) == (200, 1)
        await wire.close()
