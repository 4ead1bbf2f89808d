"""How long a server may keep a request, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.virtual_loop import VirtualLoop
from tests.waiting import passes, turns
from tms.outgoing.answer import Answer, BrokenAnswer
from tms.outgoing.connection import PROGRESS_BYTES, Patience, UpstreamConnection
from tms.outgoing.upstream import Upstream

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
BYTE = b"1\r\nx\r\n"
WHOLE, PARTS = Patience(10.0), Patience(10.0, 0)


class Wire(asyncio.Transport):
    """A transport that sends nothing, and counts the bytes written."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Way:
    """An `Upstream` with one connection, and the server's side of it."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.upstream = Upstream("http://h")
        self.connection = UpstreamConnection(self.upstream)
        self.connection.connection_made(self.wire)
        self.upstream._open.add(self.connection)
        self.upstream.give_back(self.connection)

    def ask(self, patience: Patience, body: bytes = b"") -> asyncio.Task[Answer]:
        return asyncio.ensure_future(
            self.upstream.send("POST", b"/", b"", body, is_counted=False, patience=patience)
        )

    def say(self, data: bytes) -> None:
        self.connection.data_received(data)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def run(loop: VirtualLoop, story: Callable[[Way], Awaitable[None]]) -> float:
    """Return how many seconds a story took, in virtual time."""

    async def told() -> float:
        begun_s, way = loop.time(), Way()
        await story(way)
        way.upstream.close()
        return loop.time() - begun_s

    return loop.run_until_complete(told())


async def broken(waiting: Awaitable[object], reason: str) -> None:
    with pytest.raises(BrokenAnswer, match=reason):
        await waiting


@pytest.mark.parametrize("patience", [WHOLE, PARTS])
def test_a_server_that_says_nothing_is_left_in_time(loop: VirtualLoop, patience: Patience) -> None:
    async def story(way: Way) -> None:
        await broken(way.ask(patience), "nothing of the answer arrived within 10 s")
        assert way.wire.is_aborted

    assert run(loop, story) == pytest.approx(10, abs=0.1)


def test_a_byte_a_second_does_not_keep_who_waits_for_the_whole(loop: VirtualLoop) -> None:
    async def story(way: Way) -> None:
        asking = way.ask(WHOLE)
        await turns(3)
        way.say(HEAD)
        reading = asyncio.ensure_future(_read(await asking))
        while not reading.done():
            await passes(1)
            if not way.wire.is_aborted:
                way.say(BYTE)
        await broken(reading, "less than 65536 bytes of it arrived in time")

    assert run(loop, story) < 12


def test_a_large_answer_may_take_longer_if_it_continues(loop: VirtualLoop) -> None:
    async def story(way: Way) -> None:
        asking = way.ask(WHOLE)
        await turns(3)
        way.say(HEAD)
        reading = asyncio.ensure_future(_read(await asking))
        for _ in range(10):
            await passes(9)
            way.say(b"%x\r\n%s\r\n" % (PROGRESS_BYTES, bytes(PROGRESS_BYTES)))
        way.say(b"0\r\n\r\n")
        assert await reading == 10 * PROGRESS_BYTES

    assert run(loop, story) == pytest.approx(90, abs=0.1)


def test_each_part_that_is_waited_for_has_its_time(loop: VirtualLoop) -> None:
    """This holds even if the reader was busy with the previous part for long."""

    async def story(way: Way) -> None:
        asking = way.ask(PARTS)
        await turns(3)
        way.say(HEAD + BYTE)
        answer = await asking
        for pause_s in (9, 0, 9, 60, 9):
            assert await anext(answer) == b"x"
            await passes(pause_s)
            part = asyncio.ensure_future(anext(answer))
            await passes(9)
            way.say(BYTE)
            assert await part == b"x"
            way.say(BYTE)
        await anext(answer)
        await broken(anext(answer), "arrived in time|arrived within")

    assert run(loop, story) < 150


def test_a_body_may_take_its_time_if_it_continues(loop: VirtualLoop) -> None:
    async def story(way: Way) -> None:
        asking = way.ask(WHOLE, bytes(10 * PROGRESS_BYTES))
        for _ in range(5):
            await passes(9)
            way.wire.unsent -= 2 * PROGRESS_BYTES
        way.say(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        assert await _read(await asking) == 0
        await passes(3)
        asking = way.ask(WHOLE, bytes(10 * PROGRESS_BYTES))
        await broken(asking, "nothing of the answer arrived")

    assert run(loop, story) < 65


async def _read(answer: Answer) -> int:
    return sum([len(part) async for part in answer])
