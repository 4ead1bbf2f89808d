"""Sends the head of an answer together with the body behind it: one system call, not two.

uvicorn writes the head as soon as an answer starts and the body when it comes; uvloop sends each at
once. Sending is the dearest part of a poll that is served from memory: a head of its own costs a
sixth of the server's time. So a head waits for the write that follows it, or, where none does (the
answer to HEAD has no body), for the next turn of the event loop.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD_START = b"HTTP/1."


class _JoiningTransport:
    """A transport whose first write of an answer waits for the second."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._head: bytes | None = None
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Hold the head of an answer; write anything else, behind what is held."""
        if self._head is not None:
            data, self._head = self._head + data, None
            self._transport.write(data)
        elif data.startswith(_HEAD_START):
            self._head = data
            self._loop.call_soon(self._write_head)
        else:
            self._transport.write(data)

    def write_whole(self, data: bytes) -> None:
        """Write a whole answer, behind what is held."""
        if self._head is not None:
            self._write_head()
        self._transport.write(data)

    def _write_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.write(head)

    def close(self) -> None:
        """Close behind what is held."""
        self._write_head()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class JoinedWritesProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, on a transport that joins."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        joining = _JoiningTransport(transport)
        self.write_whole = joining.write_whole
        super().connection_made(joining)  # type: ignore[arg-type]
