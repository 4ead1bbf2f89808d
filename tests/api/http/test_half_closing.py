"""A client that closes only its own side gets the answers to the requests it sent completely."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.http.odd_requests import HOST, JSON, PING, PUBLISH, TOPIC, publish, request
from tests.api.http.secured_server import Secured, secured
from tests.api.rest import JSON_TYPE, Live, Wire, live
from tests.api.rest import TOPIC as TOPIC_PATH
from tests.servers.authority import Authority
from tests.waiting import WAIT_S_MAX
from tms.core.limits import Limits
from tms.core.runtime.tls import client_context

pytestmark = pytest.mark.anyio
POLL = request(b"POST", TOPIC + b"/poll?wait=60", HOST + JSON + b"content-length: 2\r\n", b"{}")


async def all_answered(served: Live, sent: bytes) -> bytes:
    """Return all answers to a client that sends these bytes and then closes its own side."""
    wire = await served.connect()
    wire.writer.write(sent)
    wire.writer.write_eof()
    answered = await wire.rest()
    await wire.close()
    return answered


@pytest.mark.parametrize("count", [1, 3, 50])
async def test_each_whole_request_is_answered(served: Live, count: int) -> None:
    await served.create()

    answered = await all_answered(served, (PING + PUBLISH) * count)

    assert answered.count(b"HTTP/1.1 200 OK") == 2 * count
    assert len(await served.payloads(limit=1000)) == count


async def test_fifty_clients_at_once_are_answered(served: Live) -> None:
    await served.create()

    answers = await asyncio.gather(*[all_answered(served, PUBLISH) for _ in range(50)])

    assert [answer[:15] for answer in answers] == [b"HTTP/1.1 200 OK"] * 50


@pytest.mark.parametrize("cut", [PUBLISH[:-1], PUBLISH[:30], b""])
async def test_what_was_not_sent_whole_is_not_answered_and_ends_it(
    served: Live, cut: bytes
) -> None:
    await served.create()

    answered = await all_answered(served, PUBLISH + cut)

    assert answered.count(b"HTTP/1.1 ") == 1
    assert len(await served.payloads()) == 1


async def test_a_refused_request_is_answered(served: Live) -> None:
    answered = await all_answered(served, b"no http\r\n\r\n")

    assert answered.startswith(b"HTTP/1.1 400 ")


async def test_connection_close_is_answered_too(served: Live) -> None:
    answered = await all_answered(served, request(fields=HOST + b"connection: close\r\n"))

    assert answered.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("field", [b"", b"connection: close\r\n"])
async def test_a_poll_that_waits_ends_there(served: Live, field: bytes) -> None:
    await served.create()
    wire = await served.connect()
    wire.writer.write(POLL.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n"))
    await served.until(lambda: served.waiters() == 1)

    wire.writer.write_eof()

    assert await wire.rest() == b""
    await served.until(lambda: served.waiters() == 0)
    await wire.close()


async def test_a_stream_ends_there(anyio_backend: object) -> None:
    async with live(Limits(poll_block_bytes=64 * 1024)) as served:
        await served.create()
        for _ in range(20):
            await served.publish(*[b"x" * 50_000] * 20)
        wire = await served.connect()
        body = json.dumps({"limit": 1000}).encode()
        await wire.send("POST", f"{TOPIC_PATH}/poll", body, {"content-type": JSON_TYPE})
        await wire.reader.readuntil(b"\r\n\r\n")

        wire.writer.write_eof()

        await served.until(
            lambda: served.metric("tms_http_requests_total", operation="poll", status="499") == 1
        )
        wire.writer.transport.abort()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture
async def server(anyio_backend: object, authority: Authority) -> AsyncIterator[Secured]:
    async with secured(authority) as served:
        yield served


def ask_and_end(port: int, ca: Path, version: ssl.TLSVersion, sent: bytes) -> bytes:
    """Send all, then `close_notify`; return what arrives until the server has closed its side."""
    context = client_context(str(ca))
    context.maximum_version = version
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(coming, going, server_hostname="localhost")
    answered = b""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX) as wire:

        def step(what: str) -> bytes:
            while True:
                try:
                    done = getattr(tls, what)()
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLWantReadError:
                    wire.sendall(going.read())
                    more = wire.recv(65536)
                    coming.write(more) if more else coming.write_eof()
                else:
                    wire.sendall(going.read())
                    return done or b""

        step("do_handshake")
        tls.write(sent)
        try:
            tls.unwrap()  # sends the alert, and waits for the server's
        except ssl.SSLWantReadError:
            wire.sendall(going.read())
        while part := step("read"):
            answered += part
    return answered


async def test_over_tls_too_if_the_protocol_allows_it(server: Secured) -> None:
    version = ssl.TLSVersion.TLSv1_3
    sent = request(b"PUT", TOPIC) + PUBLISH * 3 + PING

    answered = await asyncio.to_thread(ask_and_end, server.port, server.authority.ca, version, sent)

    assert answered.count(b"HTTP/1.1 200 OK") == 5


async def test_in_old_tls_both_sides_end_together(server: Secured) -> None:
    version = ssl.TLSVersion.TLSv1_2
    answered = await asyncio.to_thread(
        ask_and_end, server.port, server.authority.ca, version, PING + publish()[:-1]
    )

    assert answered.count(b"HTTP/1.1 ") <= 1
    wire: Wire = await server.connect()
    wire.writer.write(PING)
    assert (await wire.answer())[0] == 200
    await wire.close()
