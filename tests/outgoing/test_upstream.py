"""Requests to another server over kept-alive connections, and their answers."""

import asyncio
import gc
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.api.cluster.asking import anyio_backend, ask, body_of, streamed, way_to
from tests.api.cluster.peers import OK, Talk, answer_all, answering, peer_that
from tests.servers.authority import Authority
from tests.waiting import turns, until
from tms.core.runtime.tls import TlsFiles, server_context
from tms.outgoing import upstream
from tms.outgoing.answer import BrokenAnswer
from tms.outgoing.upstream import NotSent, Upstream

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio


async def test_a_request_is_sent_as_it_is_and_its_connection_is_kept() -> None:
    requests = []

    async def record(talk: Talk) -> None:
        while True:
            requests.append(await talk.request())
            await talk.say(OK)

    async with peer_that(record) as peer:
        with way_to(peer) as way:
            assert await body_of(await ask(way, b"abc")) == b"ok"
            assert await body_of(await ask(way, method="GET")) == b"ok"
            counted = await ask(way, streamed(b"ab", b"cd"), "PUT", length=4)
            assert await body_of(counted) == b"ok"
            in_chunks = await ask(way, streamed(b"ab", b"", b"cd"), "PUT")
            assert await body_of(in_chunks) == b"ok"
        host = peer.url.removeprefix("http://").encode()
    behind = b" /p?q HTTP/1.1\r\nhost: %s\r\na: 1\r\na: 2\r\n" % host
    assert requests == [
        b"POST" + behind + b"content-length: 3\r\n\r\nabc",
        b"GET" + behind + b"\r\n",
        b"PUT" + behind + b"content-length: 4\r\n\r\nabcd",
        b"PUT" + behind + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
    ]
    assert len(peer.talks) == 1


async def test_an_answer_is_read_however_it_is_framed() -> None:
    chunked = b"HTTP/1.1 201 Created\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    answers = (
        chunked + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    )

    async def bytewise(talk: Talk) -> None:
        for each in answers:
            await talk.request()
            for at in range(len(each)):
                await talk.say(each[at : at + 1])
                await turns()

    for behaviour in (answering(*answers), bytewise):
        async with peer_that(behaviour) as peer:
            with way_to(peer) as way:
                found = []
                for _ in answers:
                    answer = await ask(way)
                    found.append((answer.status_code, answer.headers, await body_of(answer)))
                assert found == [
                    (
                        201,
                        [(b"X-A", b"1"), (b"x-a", b"2"), (b"Transfer-Encoding", b"chunked")],
                        b"abc",
                    ),
                    (200, [(b"content-length", b"2")], b"ok"),
                    (204, [], b""),
                    (304, [(b"content-length", b"7")], b""),
                    (200, [(b"content-length", b"0")], b""),
                ]
                assert len(peer.talks) == 1


@pytest.mark.parametrize(
    "framing", [b"content-length: 9\r\n", b"transfer-encoding: chunked\r\n", b""]
)
async def test_an_answer_to_head_has_no_body(framing: bytes) -> None:
    async with peer_that(answering(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n", OK)) as peer:
        with way_to(peer) as way:
            for _ in range(2):
                answer = await ask(way, method="HEAD")
                assert (answer.status_code, await body_of(answer)) == (200, b"")


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nok",
    "another coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nokk",
    "a length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
    b"transfer-encoding: chunked\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    "only what comes before an answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 10_000_000,
    "heads before the answer without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 400_000,
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
async def test_what_is_not_an_answer_is_reported(said: bytes) -> None:
    async with peer_that(answering(said)) as peer:
        with way_to(peer) as way:
            with pytest.raises(BrokenAnswer):
                await ask(way)
            peer.behaviour = answer_all
            assert await body_of(await ask(way)) == b"ok"


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CUT = {
    "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
    "half a chunk": CHUNKED + b"3\r\nok",
    "chunks without an end": CHUNKED + b"2\r\nok\r\n",
    "a chunk that is none": CHUNKED + b"2\r\nok\r\nzz\r\n",
    "an end that does not end": CHUNKED + b"2\r\nok\r\n0\r\nx: " + b"x" * 10_000_000,
}


@pytest.mark.parametrize("said", CUT.values(), ids=CUT)
async def test_an_answer_that_does_not_end_is_reported(said: bytes) -> None:
    async with peer_that(answering(said)) as peer:
        with way_to(peer) as way:
            answer = await ask(way)
            with pytest.raises(BrokenAnswer):
                await body_of(answer)
            peer.behaviour = answer_all
            assert await body_of(await ask(way)) == b"ok"


async def test_an_answer_has_no_more_than_it_announces() -> None:
    for more in (b"more", OK, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nmore"):
        async with peer_that(answering(OK + more, OK)) as peer:
            with way_to(peer) as way:
                for _ in range(2):
                    assert await body_of(await ask(way)) == b"ok"
                assert len(peer.talks) == 2, "nothing is asked where too much was answered"


async def test_what_nobody_has_asked_for_is_not_taken_for_an_answer() -> None:
    async def behave(talk: Talk) -> None:
        await talk.request()
        await talk.say(OK)
        await turns(20)
        await talk.say(b"HTTP/1.1 408 Too Slow\r\ncontent-length: 0\r\n\r\n")
        assert await talk.ended() == b""

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            for count in (1, 2):
                assert await body_of(await ask(way)) == b"ok"
                await until(lambda: not way._open)
                assert len(peer.talks) == count


async def test_a_connection_whose_end_was_seen_is_not_used() -> None:
    async with peer_that(answering(OK)) as peer:
        with way_to(peer) as way:
            for count in (1, 2, 3):
                assert await body_of(await ask(way)) == b"ok"
                await until(lambda: not way._open)
                assert len(peer.talks) == count


async def test_a_connection_that_ends_as_it_is_used_leaves_the_outcome_unknown() -> None:
    requests = []

    async def behave(talk: Talk) -> None:
        requests.append(await talk.request())
        await talk.say(OK)
        requests.append(await talk.request())

    async with peer_that(behave) as peer:
        with way_to(peer) as way:
            assert await body_of(await ask(way)) == b"ok"
            with pytest.raises(BrokenAnswer):
                await ask(way, b"once")
            assert len(requests) == 2, "it is not sent again"


async def test_an_answer_that_says_so_is_the_last_one_of_its_connection() -> None:
    closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"

    async def stay(talk: Talk) -> None:
        await talk.request()
        await talk.say(closing)
        assert await talk.ended() == b""

    async with peer_that(stay) as peer:
        with way_to(peer) as way:
            for count in (1, 2):
                assert await body_of(await ask(way)) == b"ok"
                assert len(peer.talks) == count


async def test_nothing_was_sent_if_there_is_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = Authority(tmp_path / "theirs").issue("server").pair
    with pytest.raises(NotSent):
        await ask(Upstream("http://127.0.0.1:1"))
    with pytest.raises(NotSent):
        await ask(Upstream("http://nowhere.invalid"))
    async with peer_that(answer_all, server_context(TlsFiles(cert, key))) as peer:
        with pytest.raises(NotSent, match="certificate"):
            await ask(Upstream(peer.url))
    monkeypatch.setattr(upstream, "CONNECT_S_MAX", 0.05)

    async def say_nothing(talk: Talk) -> None:
        await talk.ended()

    async with peer_that(say_nothing) as peer:
        with pytest.raises(NotSent):
            await ask(Upstream(peer.url.replace("http:", "https:")))
    closed = Upstream(peer.url)
    closed.close()
    with pytest.raises(NotSent):
        await ask(closed)


async def test_a_connection_that_is_cancelled_as_it_is_made_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with peer_that(answer_all) as peer:
        port = int(peer.url.rpartition(":")[2])
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))
            for host in ("127.0.0.1", "127.0.0.2")
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: addresses)
        way = Upstream(f"http://localhost:{port}")

        def has_more_than(talks: int) -> bool:
            return len(peer.talks) > talks

        for between in range(16):
            connected = len(peer.talks)
            asking = asyncio.ensure_future(ask(way))
            await until(partial(has_more_than, connected))
            await turns(between)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            way.close()
            way.is_closed = False
        gc.collect()
