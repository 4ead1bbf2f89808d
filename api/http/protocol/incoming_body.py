"""The body of a request that is at work, between the connection that it comes on and its handler.

It holds what has come and was not received yet. The connection is asked to read no more while that
is much, so a body takes little memory however long it is, unless its handler collects it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from api.http.protocol.framing import Framing
from tms.core.errors import InvalidRequest

_HELD_BYTES_MAX = 64 * 1024


class BodySource(Protocol):
    """The connection that a body comes on."""

    def pause_reading(self) -> None:
        """Read no more for now."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...

    def write_continue(self) -> None:
        """Tell the client to send the body."""
        ...


class IncomingBody:
    """A body of which at least a part is still to come."""

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
        """Begin with `part`; `expected` says whether the client waits to be told to send it."""
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
        """Whether all of it has come."""
        return self._framing.is_done

    @property
    def is_received(self) -> bool:
        """Whether all of it has come and was received."""
        return self._framing.is_done and not self._arrived

    def feed(self, data: bytes) -> bytes:
        """Take in what has come; return what comes behind the body.

        Raises `InvalidRequest` (malformed_request).
        """
        part, behind = self._framing.feed(data)
        if part and not self._is_unwanted:
            self._arrived.append(part)
            self._bytes += len(part)
            if self._bytes > _HELD_BYTES_MAX:
                self._source.pause_reading()
        self._wake()
        return behind

    def fail(self, error: InvalidRequest) -> None:
        """Have whoever receives it get an error like this one.

        It is raised anew: one that is kept would keep the stack that it is raised in.
        """
        self._refusal = error.problem.code, error.detail
        self._wake()

    def lose(self) -> None:
        """Take note that the client is gone."""
        self._is_lost = True
        self._wake()

    def discard(self) -> None:
        """Keep nothing of it: nobody receives it."""
        self._is_unwanted = True
        self._arrived = []
        self._source.resume_reading()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def receive(self) -> bytes | None:
        """Return the next part of the body, nothing behind its end; None if the client is gone.

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
