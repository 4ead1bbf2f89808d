"""The body of a poll's answer, in parts: messages in one of the formats, or within an object."""

from collections.abc import Sequence
from typing import Protocol

from api.http.exchange import JSON_TYPE
from tms.core.errors import InvalidRequest
from tms.core.services.messaging import Page
from tms.wire.bodies import MessagesFormat


class PollAnswer(Protocol):
    """The answer to one poll, in parts."""

    content_type: bytes

    async def part(self, page: Page) -> Sequence[bytes]:
        """Return the next bytes of the answer; none for a page without messages."""
        ...

    def end(self) -> bytes:
        """Return the last bytes of the answer."""
        ...


def encoded_parts(page: Page, body_format: MessagesFormat, *, first: bool) -> list[bytes]:
    """Return the messages of a page in a format; `first` says that none came before."""
    parts = []
    for block in page.blocks:
        parts.append(body_format.encode_block(block, first=first))
        first = False
    return parts


class EncodedAnswer:
    """The answer in one of the formats."""

    def __init__(self, answer_format: MessagesFormat) -> None:
        self.content_type = answer_format.content_type.encode()
        self._format = answer_format
        self._is_first = True

    async def part(self, page: Page) -> Sequence[bytes]:
        """Return the messages of a page."""
        parts = encoded_parts(page, self._format, first=self._is_first)
        self._is_first = self._is_first and not parts
        return parts

    def end(self) -> bytes:
        """Return what ends the answer."""
        return self._format.encode_end(first=self._is_first)


class AnswerWithStop:
    """JSON's messages within an object, and behind them where the reader stopped."""

    def __init__(self, messages: PollAnswer) -> None:
        """Wrap an answer. Raises `InvalidRequest` (invalid_query) if it is not in JSON."""
        if not messages.content_type.startswith(JSON_TYPE):
            raise InvalidRequest("invalid_query", name="stopped_at", expected="an answer in JSON")
        self.content_type = messages.content_type
        self._messages = messages
        self._start = b'{"messages":'
        self._stopped_at: int | None = None

    async def part(self, page: Page) -> Sequence[bytes]:
        """Return the messages of a page."""
        self._stopped_at = page.stopped_at
        parts = await self._messages.part(page)
        if not parts:
            return parts
        start, self._start = self._start, b""
        return (start, *parts)

    def end(self) -> bytes:
        """Return what ends the answer: where the last page stopped."""
        told = b"null" if self._stopped_at is None else b'"%d"' % self._stopped_at
        return b'%s%s,"stoppedAt":%s}' % (self._start, self._messages.end(), told)
