"""An answer to a request, of which the body may still be on its way."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol


def reason_of(error: BaseException) -> str:
    """Return what an exception says, or its type if it says nothing."""
    return str(error) or type(error).__name__


class BrokenAnswer(Exception):
    """Raised where the answer, or the rest of it, does not come."""


class LateAnswer(BrokenAnswer):
    """Raised if the answer, or enough of it, does not come in time."""


class TooLong(BrokenAnswer):
    """Raised where the body of an answer is longer than its reader takes."""


class AnswerSource(Protocol):
    """The connection that an answer comes on."""

    def note_wait(self) -> None:
        """Record that the next part is waited for from now on."""
        ...

    def read_on(self) -> None:
        """Read on, if reading was paused."""
        ...

    def cut(self, reason: str) -> None:
        """End it."""
        ...


class Answer:
    """An answer, of which the body may still be on its way."""

    def __init__(self, source: AnswerSource, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for all of it."""
        self._loop = loop
        self.status_code = 0
        """0 until the whole head is there."""
        self.headers: list[tuple[bytes, bytes]] = []
        """As they came."""
        self.is_complete = False
        """Whether all of it has come."""
        self.is_unframed = False
        """Whether it does not say how long it is, and so is broken once its body has come."""
        self.is_late = False
        """Whether it was cut because it did not come in time."""
        self.held_bytes = 0
        """How much of the body has come, and was not taken."""
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
        """Whether somebody waits for more."""
        return self._waiter is not None

    @property
    def is_read(self) -> bool:
        """Whether all of it has come and was taken."""
        return self.is_complete and not self._parts

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Return the body in parts, as they come; the next one may raise `BrokenAnswer`."""
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
        """Return what has come of the body and was not taken."""
        part = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self.held_bytes = [], 0
        return part

    async def aclose(self) -> None:
        """Cut the connection if there is more to come."""
        if self._source is not None:
            self._source.cut("the answer was given up")

    async def changed(self) -> None:
        """Return when more has come, or more of the request can be sent. Raises `BrokenAnswer`."""
        if self._broken_by is None:
            self._waiter = self._loop.create_future()
            if self._source is not None:
                self._source.note_wait()
            await self._waiter
        if self._broken_by is not None and not self._parts:
            raise (LateAnswer if self.is_late else BrokenAnswer)(self._broken_by)

    # What its connection tells.

    def forget_head(self) -> None:
        """Wait for another head: that one only said that it is to come."""
        self.headers, self._fields = [], None

    def take(self, part: bytes) -> None:
        """Take in a part of the body."""
        self._parts.append(part)
        self.held_bytes += len(part)

    def end(self, broken_by: str | None) -> None:
        """Take note that no more comes: it is complete (None), or why it is not."""
        self.is_complete = broken_by is None
        self._broken_by = broken_by
        self._source = None
        self.wake()

    def wake(self) -> None:
        """Have whoever waits look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
