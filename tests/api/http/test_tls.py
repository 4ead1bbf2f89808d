"""TLS of the server: who is admitted, what a rotation changes, and what strangers cannot do."""

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator

import pytest

from api.http.protocol.peer import Peer
from tests.api.http.odd_requests import PING
from tests.api.http.secured_server import Secured, secured
from tests.api.rest import Wire
from tests.servers.authority import Authority
from tests.waiting import until
from tms.core.limits import Limits
from tms.core.runtime.tls import client_context

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "theirs")


async def ping(wire: Wire) -> int:
    wire.writer.write(PING)
    return (await wire.answer())[0]


@pytest.fixture
async def server(anyio_backend: object, authority: Authority) -> AsyncIterator[Secured]:
    async with secured(authority, client_ca=authority.ca) as served:
        yield served


async def test_requests_are_answered_over_tls(server: Secured) -> None:
    wire = await server.connect()

    assert [await ping(wire) for _ in range(3)] == [200] * 3
    assert wire.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    assert server.peers == [Peer("127.0.0.1", None, "https")] * 3
    await wire.close()


async def test_what_comes_with_the_end_of_the_handshake_is_answered(server: Secured) -> None:
    """A client may send its first request in the same packet."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(str(server.authority.ca)).wrap_bio(
        coming, going, server_hostname="localhost"
    )
    wire = await server.plain()
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    wire.writer.write(going.read())
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            coming.write(await wire.reader.read(65536))
    client.write(PING)
    wire.writer.write(going.read())

    answer = b""
    while b"\r\n\r\n" not in answer:
        try:
            answer += client.read(65536)
        except ssl.SSLWantReadError:
            coming.write(await wire.reader.read(65536))

    assert answer.startswith(b"HTTP/1.1 200 OK")
    wire.writer.transport.abort()


@pytest.mark.parametrize(
    ("name", "sans", "principal"),
    [
        ("alice", "", "alice"),
        ("alice", "URI:spiffe://shop/orders", "spiffe://shop/orders"),
        ("alice", "DNS:alice.example", "alice"),
        ("server:1", "", None),
        ("", "DNS:alice.example", None),
    ],
)
async def test_a_certificate_names_the_caller(
    server: Secured, authority: Authority, name: str, sans: str, principal: str | None
) -> None:
    wire = await server.connect(authority.issue(name, sans))

    assert await ping(wire) == 200

    assert server.peers == [Peer("127.0.0.1", principal, "https")]
    await wire.close()


@pytest.mark.parametrize("is_expired", [True, False])
async def test_a_certificate_of_others_or_that_has_ended_is_turned_away(
    server: Secured,
    authority: Authority,
    stranger: Authority,
    caplog: pytest.LogCaptureFixture,
    *,
    is_expired: bool,
) -> None:
    caplog.set_level(logging.INFO, "tms.api")
    shown = (authority if is_expired else stranger).issue("alice", "", is_expired=is_expired)

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ping(await server.connect(shown))

    assert server.peers == []
    assert "TLS handshakes that failed: 1; now: 127.0.0.1: its certificate is" in caplog.text
    wire = await server.connect()
    assert await ping(wire) == 200
    await wire.close()


async def test_clients_do_not_trust_another_authority(server: Secured, stranger: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await server.connect(ca=stranger.ca)


async def test_old_versions_of_tls_are_not_spoken(server: Secured) -> None:
    context = client_context(str(server.authority.ca))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
        )


async def test_plain_http_is_closed_and_told_of_rarely(
    server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tms.api")
    for _ in range(3):
        wire = await server.plain()
        wire.writer.write(PING)
        assert b"HTTP" not in await wire.rest()
        await wire.close()

    assert caplog.text.count("it speaks HTTP without TLS") == 1


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x00" * 600])
async def test_half_a_handshake_ends_in_time(
    anyio_backend: object, authority: Authority, sent: bytes
) -> None:
    async with secured(authority, limits=Limits(request_head_s_max=0.7)) as server:
        wire = await server.plain()
        wire.writer.write(sent)

        await wire.rest()

        await wire.close()


async def test_half_open_handshakes_are_bounded_like_connections(
    anyio_backend: object, authority: Authority
) -> None:
    async with secured(authority, limits=Limits(connections_max=3)) as server:
        waiting = [await server.plain() for _ in range(5)]
        wire = await server.connect()

        assert await ping(wire) == 200
        assert [await each.rest() for each in waiting[:3]] == [b""] * 3
        for each in (wire, *waiting):
            each.writer.transport.abort()


async def test_a_connection_counts_once(anyio_backend: object, authority: Authority) -> None:
    async with secured(authority, limits=Limits(connections_max=3)) as server:
        wires = []
        for _ in range(3):
            wire = await server.connect()
            assert await ping(wire) == 200
            wires.append(wire)

        assert [await ping(wire) for wire in wires] == [200] * 3
        for wire in wires:
            await wire.close()


async def test_a_new_certificate_is_for_new_connections_and_the_old_ones_continue(
    server: Secured, authority: Authority
) -> None:
    old = await server.connect()
    before = await server.serial()
    server.files.become(authority.issue("server"))

    server.tls.look()

    assert await server.serial() != before
    assert await ping(old) == 200
    await old.close()


async def test_a_hangup_has_the_certificate_read_again(
    server: Secured, authority: Authority
) -> None:
    before = await server.serial()
    server.files.become(authority.issue("server"))

    os.kill(os.getpid(), signal.SIGHUP)

    async def is_another() -> bool:
        return await server.serial() != before

    await until(is_another)


async def test_a_certificate_that_cannot_be_used_leaves_the_last_one(
    server: Secured, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    before = await server.serial()
    server.files.key.write_bytes(authority.issue("another").key.read_bytes())

    server.tls.look()
    server.tls.look()

    assert await server.serial() == before
    assert caplog.text.count("does not belong to the certificate") == 1
    assert "tls_key" in caplog.text
    server.files.become(authority.issue("server"))
    server.tls.look()
    assert await server.serial() != before


async def test_nothing_is_lost_while_certificates_change(
    server: Secured, authority: Authority
) -> None:
    issued = [authority.issue("server") for _ in range(5)]
    is_over = asyncio.Event()

    async def load(*, keeps: bool) -> int:
        answered, wire = 0, await server.connect()
        while not is_over.is_set() or not answered:
            if not keeps:
                await wire.close()
                wire = await server.connect()
            assert await ping(wire) == 200
            answered += 1
        await wire.close()
        return answered

    loads = [asyncio.create_task(load(keeps=number % 2 == 0)) for number in range(8)]
    for each in issued:
        count = len(server.peers)
        server.files.become(each)
        server.tls.look()
        await until(lambda: len(server.peers) >= count + 50)  # noqa: B023  awaited at once
    is_over.set()

    answered = await asyncio.gather(*loads)
    assert all(answered)
    assert sum(answered) == len(server.peers)


async def test_a_stop_ends_idle_and_half_open_connections(
    anyio_backend: object, authority: Authority
) -> None:
    async with secured(authority) as server:
        idle, half = await server.connect(), await server.plain()
        assert await ping(idle) == 200
    assert await idle.rest() == b""
    assert await half.rest() == b""
    for each in (idle, half):
        each.writer.transport.abort()
