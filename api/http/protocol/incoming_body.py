"""The body of a request that is at work, between its connection and its handler.

It holds the bytes that have arrived and that the handler has not received. While these are many,
the connection does not read, so a body takes little memory however long it is, unless its handler
collects it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from api.http.protocol.framing import Framing
from tms.core.errors import InvalidRequest

_HELD_BYTES_MAX = 64 * 1024


class BodySource(Protocol):
    """The connection on which a body arrives."""

    def pause_reading(self) -> None:
        """Stop reading for now."""
        ...

    def resume_reading(self) -> None:
        """Continue reading."""
        ...

    def write_continue(self) -> None:
        """Ask the client to send the body."""
        ...


class IncomingBody:
    """A body of which at least a part has not arrived."""

    __slots__ = (
        "_arrived",
        "_bytes",
        "_framing",
        "_is_due",
        "_is_lost",
        "_is_unwanted",
        "_refusal",
        "_source",
        "_waiter",
    )

    def __init__(
        self, framing: Framing, part: bytes, source: BodySource, *, expected: bool
    ) -> None:
        """Begin with `part`; `expected` says whether the client waits for `100 Continue`."""
        self._framing = framing
        self._source = source
        self._arrived = [part] if part else []
        self._bytes = len(part)
        self._refusal: tuple[str, Mapping[str, Any]] | None = None  # code and detail of an error
        self._is_lost = False
        self._is_unwanted = False
        self._waiter: asyncio.Future[None] | None = None
        self._is_due = expected

    @property
    def is_complete(self) -> bool:
        """Whether all of it has arrived."""
        return self._framing.is_done

    @property
    def is_received(self) -> bool:
        """Whether all of it has arrived, and the handler has received it."""
        return self._framing.is_done and not self._arrived

    def feed(self, data: bytes) -> bytes:
        """Add arrived bytes; return those after the body.

        Raises `InvalidRequest` (malformed_request).
        """
        part, rest = self._framing.feed(data)
        if part and not self._is_unwanted:
            self._arrived.append(part)
            self._bytes += len(part)
            if self._bytes > _HELD_BYTES_MAX:
                self._source.pause_reading()
        self._wake()
        return rest

    def fail(self, error: InvalidRequest) -> None:
        """Raise a new error like this one in the receiver.

        An error that is kept would keep the stack in which it is raised.
        """
        self._refusal = error.problem.code, error.detail
        self._wake()

    def lose(self) -> None:
        """Record that the client is gone."""
        self._is_lost = True
        self._wake()

    def discard(self) -> None:
        """Drop the body: nobody receives it."""
        self._is_unwanted = True
        self._arrived = []
        self._source.resume_reading()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def receive(self) -> bytes | None:
        """Return the next part of the body, empty after its end; None if the client is gone.

        Raises `InvalidRequest` (body_too_slow, malformed_request).
        """
        while not self._is_lost:
            if self._arrived:
                part = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
                self._arrived = []
                self._bytes = 0
                self._source.resume_reading()
                return part
            if self._refusal is not None:
                code, detail = self._refusal
                raise InvalidRequest(code, **detail)
            if self._framing.is_done:
                return b""
            if self._is_due:
                self._is_due = False
                self._source.write_continue()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return None
