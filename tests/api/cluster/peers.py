"""Another server that behaves as a test says, behind a real socket."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.waiting import in_time

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Talk:
    """One connection to the peer, seen from the peer's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """Return the head of the next request, without the empty line."""
        return (await self.reader.readuntil(b"\r\n\r\n"))[:-4]

    async def request(self) -> bytes:
        """Return the next request as raw bytes; its body has a Content-Length or is chunked."""
        head = await self.head()
        body = b""
        if b"transfer-encoding: chunked" in head:
            while not body.endswith(b"0\r\n\r\n"):
                body += await self.reader.readuntil(b"\r\n")
        elif b"content-length: " in head:
            body = await self.reader.readexactly(int(head.split(b"content-length: ")[1].split()[0]))
        return head + b"\r\n\r\n" + body

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def never(self) -> None:
        """Wait until the test ends."""
        await asyncio.Event().wait()

    async def ended(self) -> bytes:
        """Return the bytes received before the other side closed the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


Behaviour = Callable[[Talk], Awaitable[None]]


class Peer:
    """The peer. Anything that its behaviour raises is raised again at the end of the test."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.url = ""
        self.talks: list[Talk] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(reader, writer)
        self.talks.append(talk)
        self._tasks.add(asyncio.ensure_future(self._behave(talk)))

    async def _behave(self, talk: Talk) -> None:
        try:
            await self.behaviour(talk)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has closed the connection
        finally:
            talk.writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


@asynccontextmanager
async def peer_that(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Run a peer that handles each connection by `behaviour`, until the test ends."""
    peer = Peer(behaviour)
    server = await asyncio.start_server(peer.take, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    peer.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with in_time():
            yield peer
    finally:
        server.close()
        await peer.end()


def answering(*answers: bytes) -> Behaviour:
    """Answer one request after another with these bytes, then close the connection."""

    async def behave(talk: Talk) -> None:
        for answer in answers:
            await talk.request()
            await talk.say(answer)

    return behave


async def answer_all(talk: Talk) -> None:
    """Answer each request with `ok`."""
    while True:
        await talk.request()
        await talk.say(OK)
