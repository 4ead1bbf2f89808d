"""Connections of a server without sockets: tests feed bytes, and read what was written."""

import asyncio
import re
from typing import NamedTuple

from api.http.application import Application
from api.http.listener.connection import HttpConnection
from api.http.protocol.connections import Connections
from tests.waiting import turns, until
from tms.core.limits import Limits


class Answer(NamedTuple):
    """The answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Recorded(asyncio.Transport):
    """Keeps what is written, and whether the end was."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_ended, "something was written behind the end"
        self.written += data

    def write_eof(self) -> None:
        self.is_ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.is_ended = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Keep receiving, as a socket does whose bytes have already arrived."""

    resume_reading = pause_reading

    def answers(self) -> list[Answer]:
        """Return the answers; fail unless the bytes are a sequence of complete answers."""
        answers, rest = [], self.written
        while rest:
            head, end, rest = rest.partition(b"\r\n\r\n")
            assert end, rest
            first, *lines = head.decode("latin-1").split("\r\n")
            assert re.fullmatch(r"HTTP/1\.1 [1-5]\d\d( [ -~]*)?", first), first
            headers = dict(line.split(": ", 1) for line in lines)
            size = int(headers.get("content-length", "0"))
            body, rest = rest[:size], rest[size:]
            assert len(body) == size
            answers.append(Answer(int(first[9:12]), headers, body))
        return answers


class Wires:
    """Makes connections to one application, which share the cache of heads."""

    def __init__(self, app: Application, limits: Limits | None = None) -> None:
        """Call within the event loop."""
        self._app = app
        self.shared = Connections(limits or Limits(), 1000)

    def connect(self) -> tuple[HttpConnection, Recorded]:
        """Return a new connection, and what it writes to."""
        transport, connection = Recorded(), HttpConnection(self._app, self.shared)
        connection.connection_made(transport)
        return connection, transport

    async def settle(self, connection: HttpConnection) -> None:
        """Let other tasks run until the connection has no request in progress."""
        await until(lambda: connection.is_idle)

    async def answers(self, *pieces: bytes) -> tuple[list[Answer], bool]:
        """Return a connection's answers to pieces of data, and whether the server closes it."""
        connection, transport = self.connect()
        for piece in pieces:
            connection.data_received(piece)
            await turns()
        await self.settle(connection)
        answers = transport.answers()
        connection.connection_lost(None)
        return answers, transport.is_ended
