"""An answer to a request. Its head may be read before its body has arrived."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol


def reason_of(error: BaseException) -> str:
    """Return what an exception says, or its type if it says nothing."""
    return str(error) or type(error).__name__


class BrokenAnswer(Exception):
    """Raised if the answer, or the rest of it, does not arrive."""


class LateAnswer(BrokenAnswer):
    """Raised if the answer, or enough of it, does not arrive in time."""


class TooLong(BrokenAnswer):
    """Raised if the body of an answer is longer than its reader accepts."""


class AnswerSource(Protocol):
    """The connection that an answer comes on."""

    def note_wait(self) -> None:
        """Record that the caller waits for the next part from now on."""
        ...

    def read_on(self) -> None:
        """Read on, if reading was paused."""
        ...

    def cut(self, reason: str) -> None:
        """Close the connection."""
        ...


class Answer:
    """An answer whose body may still be arriving."""

    def __init__(self, source: AnswerSource, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for all of it."""
        self._loop = loop
        self.status_code = 0
        """0 until the whole head is there."""
        self.headers: list[tuple[bytes, bytes]] = []
        """In the order received."""
        self.is_complete = False
        """Whether all of it has arrived."""
        self.is_unframed = False
        """Whether it has no length, and so is broken once its body has arrived."""
        self.is_late = False
        """Whether it was cut because it did not arrive in time."""
        self.held_bytes = 0
        """Bytes of the body that have arrived but were not taken."""
        self._source: AnswerSource | None = source
        self._parts: list[bytes] = []
        self._fields: dict[bytes, bytes] | None = None
        self._broken_by: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def value(self, name: bytes) -> bytes | None:
        """Return the value of the first header of a name in lower case; None if there is none."""
        return self.fields.get(name)

    @property
    def fields(self) -> Mapping[bytes, bytes]:
        """The headers by their names in lower case, the first of each name."""
        if self._fields is None:
            self._fields = {name.lower(): value for name, value in reversed(self.headers)}
        return self._fields

    @property
    def has_waiter(self) -> bool:
        """Whether a reader waits for more."""
        return self._waiter is not None

    @property
    def is_read(self) -> bool:
        """Whether all of it has arrived and was taken."""
        return self.is_complete and not self._parts

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Return the body in parts, as they arrive; the next one may raise `BrokenAnswer`."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the body in parts."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next part of the body. Raises `BrokenAnswer`."""
        while not self._parts:
            if self.is_complete:
                raise StopAsyncIteration
            await self.changed()
        part = self.take_all()
        if self._source is not None:
            self._source.read_on()
        return part

    def take_all(self) -> bytes:
        """Return the bytes of the body that have arrived but were not taken."""
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self.held_bytes = [], 0
        return part

    async def aclose(self) -> None:
        """Cut the connection if there is more to come."""
        if self._source is not None:
            self._source.cut("the answer was given up")

    async def changed(self) -> None:
        """Wait until more has arrived, or more can be sent. Raises `BrokenAnswer`."""
        if self._broken_by is None:
            self._waiter = self._loop.create_future()
            if self._source is not None:
                self._source.note_wait()
            await self._waiter
        if self._broken_by is not None and not self._parts:
            raise (LateAnswer if self.is_late else BrokenAnswer)(self._broken_by)

    # Called by its connection.

    def forget_head(self) -> None:
        """Wait for another head: this one was informational (1xx)."""
        self.headers, self._fields = [], None

    def take(self, part: bytes) -> None:
        """Append a part of the body."""
        self._parts.append(part)
        self.held_bytes += len(part)

    def end(self, broken_by: str | None) -> None:
        """Record the end: the answer is complete (None), or why it is not."""
        self.is_complete = broken_by is None
        self._broken_by = broken_by
        self._source = None
        self.wake()

    def wake(self) -> None:
        """Wake the reader, so that it looks again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
