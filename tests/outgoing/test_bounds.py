"""A hostile server cannot fill the memory, and a broken kept-alive connection is not used."""

import gzip
import zlib

import pytest

from tests.api.cluster.asking import anyio_backend, body_of
from tests.api.cluster.peers import OK, Talk, answering, peer_that
from tests.waiting import until
from tms.outgoing.answer import Answer, BrokenAnswer, TooLong
from tms.outgoing.compressed import UnknownCoding, parts_of, whole_of
from tms.outgoing.upstream import Upstream

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def get(way: Upstream) -> Answer:
    return await way.send("GET", b"/", b"", None, is_counted=True)


async def test_a_long_answer_is_cut_off() -> None:
    async def endless(talk: Talk) -> None:
        await talk.request()
        await talk.say(CHUNKED)
        while True:
            await talk.say(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    async with peer_that(endless) as peer:
        way = Upstream(peer.url)
        with pytest.raises(TooLong):
            await whole_of(await get(way), 1_000_000)
        assert not way._open
        way.close()


def zipped(body: bytes, coding: bytes = b"gzip") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n"
    return head % (coding, len(body)) + body


async def test_what_is_compressed_is_bounded_as_it_is_large() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with peer_that(answering(zipped(bomb), zipped(bomb))) as peer:
        way = Upstream(peer.url)
        with pytest.raises(TooLong):
            await whole_of(await get(way), 1_000_000)
        way.close()
        way = Upstream(peer.url)
        sizes = [len(part) async for part in parts_of(await get(way))]
        assert sum(sizes) == 50_000_000
        assert max(sizes) <= 1024 * 1024
        way.close()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (zipped(gzip.compress(b"x" * 1000)[:-4]), BrokenAnswer),
        (zipped(b"none"), zlib.error),
        (zipped(b"x", b"br"), UnknownCoding),
    ],
    ids=["cut off", "no gzip", "another coding"],
)
async def test_what_is_not_gzip_is_reported(said: bytes, error: type[Exception]) -> None:
    async with peer_that(answering(said)) as peer:
        way = Upstream(peer.url)
        with pytest.raises(error):
            await whole_of(await get(way), 1000)
        way.close()


async def test_gzip_is_read_and_an_empty_body_is_empty() -> None:
    said = (zipped(gzip.compress(b"hello")), zipped(b""), zipped(b"plain", b"identity"))
    async with peer_that(answering(*said)) as peer:
        way = Upstream(peer.url)
        bodies = [await whole_of(await get(way), 1000) for _ in said]
        assert bodies == [b"hello", b"", b"plain"]
        way.close()


async def test_a_connection_that_ended_while_the_loop_was_busy_is_not_used() -> None:
    """A program may block the loop for long; a request sent then would have an unknown outcome."""
    async with peer_that(answering(OK)) as peer:
        way = Upstream(peer.url)
        assert await body_of(await get(way)) == b"ok"
        peer.behaviour = answering(OK)
        [connection] = way._idle
        connection._transport.pause_reading()  # the loop does not see its end
        await until(lambda: not connection.is_usable)
        assert not connection.is_closing
        assert await body_of(await get(way)) == b"ok"
        assert len(peer.talks) == 2
        way.close()
