"""Poll messages: one answer if a single page holds all of it, otherwise a stream of pages.

A stream reads the next page after the connection has taken the one before, so a request needs
memory for a page or two whatever its limit. The status is sent before everything is read: a later
error can only break the connection, which leaves the body without its end (`tms.wire` detects the
cut). An answer that waits at a transaction in progress is also a stream, so that its head can name
the transaction.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Protocol

from api.http.exchange import BROKEN_OFF, JSON_TYPE, OK, ClientGone, Exchange
from api.http.operation import Operation
from api.http.protocol.answer import Headers
from api.http.query_parameters import (
    choice_of,
    flag_of,
    id_of,
    polled_transaction_of,
    values_of,
    wait_of,
)
from api.http.request_body import read_body
from api.openapi.schemas import MESSAGES_CONTENT, POLL_CONTENT, POLL_QUERY
from api.resources.paths import TOPIC
from api.resources.values import DecodedAnswer
from api.resources.waiting import wait_for
from tms.core.errors import InvalidRequest, RequestError, RulesUnavailable
from tms.core.runtime.loop_turns import LoopTurns
from tms.core.runtime.rare_log import RareLog
from tms.core.services.messaging import (
    AT_END,
    NEXT_POSITION,
    STOPPED_AT,
    FilteredPage,
    MessagingService,
    Page,
    Stopped,
)
from tms.core.values.filters import Filter, filter_of
from tms.core.values.message import MessageBlock, position_of
from tms.core.values.reading import Reading, View, isolation_of
from tms.core.values.topic import TopicId
from tms.security.resources import Action
from tms.wire.bodies import BodyFormat, MessagesFormat, PollRequest
from tms.wire.json_fields import MESSAGE_ID
from tms.wire.json_ids import POINTER
from tms.wire.transaction_codec import decode_transaction

_FILTERED_S_MAX = 5.0
_STOPPED_AT = STOPPED_AT.encode()
_JOINED_BYTES_MAX = 1024 * 1024
"""Joined blocks get no more pages once they have this number of bytes."""


_log = logging.getLogger("tms.api")
_broken_streams = RareLog(_log, "polls cut off", logging.ERROR)
"""A failing store breaks thousands of streams."""
_refused_streams = RareLog(_log, "polls cut off", logging.WARNING)
"""So does an operator who revokes a rule or deletes a topic."""


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
    """Encode the messages of a page; `first` if no messages precede them."""
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
        """Return the last bytes of the answer."""
        return self._format.encode_end(first=self._is_first)


class AnswerWithStop:
    """JSON's messages within an object, followed by where the reader stopped."""

    def __init__(self, messages: PollAnswer) -> None:
        """Wrap an answer. Raises `InvalidRequest` (invalid_query) if it is not in JSON."""
        if not messages.content_type.startswith(JSON_TYPE):
            raise InvalidRequest("invalid_query", name="stopped_at", expected="an answer in JSON")
        self.content_type = messages.content_type
        self._messages = messages
        self._start = b'{"messages":'
        self._stopped_at: int | None = None
        self._next = b""

    async def part(self, page: Page) -> Sequence[bytes]:
        """Return the messages of a page."""
        self._stopped_at = page.stopped_at
        if isinstance(page, FilteredPage):
            self._next = b',"nextPosition":"%s","atEnd":%s' % (
                page.position.hex().encode(),
                b"true" if page.next_position is None else b"false",
            )
        parts = await self._messages.part(page)
        if not parts:
            return parts
        start, self._start = self._start, b""
        return (start, *parts)

    def end(self) -> bytes:
        """Return the last bytes of the answer, with where the last page stopped."""
        stopped_at = b"null" if self._stopped_at is None else b'"%d"' % self._stopped_at
        end = self._messages.end()
        return b'%s%s,"stoppedAt":%s%s}' % (self._start, end, stopped_at, self._next)


def _view_of(request: PollRequest, values: Mapping[str, str]) -> View:
    """Return the view to read.

    Raises `InvalidRequest` if the body and the query name more than one.
    """
    raw = request.transaction
    transaction = None if raw is None else decode_transaction(raw)
    transaction_id = polled_transaction_of(values)
    isolation = choice_of(values, "isolation", ("all", "committed"), request.isolation or "all")
    if request.isolation not in (None, isolation):
        raise InvalidRequest("invalid_query", isolation=isolation, in_body=request.isolation)
    committed = isolation == "committed"
    if (transaction is not None) + (transaction_id is not None) + committed > 1:
        raise InvalidRequest(
            "invalid_query", expected="one of transaction, transaction_id, isolation=committed"
        )
    if transaction is not None:
        return transaction
    if transaction_id is not None:
        return transaction_id
    return isolation_of(committed=committed)


def _end_of(request: PollRequest, values: Mapping[str, str], wait_s: float) -> bytes | None:
    """Return the id before which a poll ends. Raises `InvalidRequest` for contradictions.

    The messages of a range exist or not, so it cannot be combined with a wait.
    """
    end = request.end
    if "end" in values:
        end = id_of(values, "end")
        if request.end not in (None, end):
            raise InvalidRequest("invalid_query", end=end.hex(), in_body=request.end.hex())
    if end is not None and wait_s:
        raise InvalidRequest("invalid_query", end=end.hex(), wait=wait_s)
    return end


def _filter_of(request: PollRequest, values: Mapping[str, str]) -> Filter | None:
    """Return the filter in the body or in the query. Raises `InvalidRequest`."""
    text = values.get("filter", request.filter)
    if request.filter not in (None, text):
        raise InvalidRequest("invalid_query", filter=text, in_body=request.filter)
    return None if text is None else filter_of(text)


def _reading_of(exchange: Exchange, body_format: BodyFormat, body: bytes) -> tuple[Reading, float]:
    """Return what a request reads, and how many seconds it will wait."""
    context = exchange.context
    request = body_format.decode_poll(body)
    position = position_of(request.start_from, inclusive=request.inclusive)
    limit = context.services.messaging.limit_of(request.limit)
    if not exchange.query and request.is_plain:
        return Reading(position, limit), 0.0
    values = values_of(exchange.query)
    wait_s = wait_of(values, context.limits.poll_wait_s_max)
    view, end = _view_of(request, values), _end_of(request, values, wait_s)
    return Reading(position, limit, view, end, _filter_of(request, values)), wait_s


class _Poll:
    """The remaining part of one poll."""

    def __init__(
        self, messaging: MessagingService, topic_id: TopicId, reading: Reading, joined_messages: int
    ) -> None:
        self._messaging = messaging
        self.topic_id = topic_id
        self._reading = reading
        self._joined_messages = joined_messages
        self.is_done = False
        self._turns: LoopTurns | None = None

    async def page(
        self,
        wait_s: float = 0.0,
        messages_max: int | None = None,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the next page, and move the position after it."""
        if self._turns is None:
            self._turns = LoopTurns()
        else:
            await self._turns.give()  # pages in memory are read without a wait
        reading = self._reading
        remaining = reading.limit or 0
        limit = min(remaining, messages_max or self._joined_messages or remaining)
        part = reading._replace(limit=limit)
        page = await self._messaging.page(self.topic_id, part, wait_s, stopped)
        self.is_done = page.next_position is None or remaining <= page.count
        if page.next_position is not None:
            self._reading = reading.behind(page.next_position, page.count)
        return page

    async def with_joined(self, page: Page) -> Page:
        """Return the page; if blocks are joined, with later pages, all as one block."""
        if not self._joined_messages:
            return page
        blocks, count = list(page.blocks), page.count
        size = sum(len(block.items) for block in blocks)
        while not self.is_done and count < self._joined_messages and size < _JOINED_BYTES_MAX:
            page = await self.page(messages_max=self._joined_messages - count)
            blocks += page.blocks
            count += page.count
            size += sum(len(block.items) for block in page.blocks)
        block = MessageBlock.joined(blocks)
        return replace(page, blocks=(block,) if count else (), count=count)

    async def first_page(self, exchange: Exchange, wait_s: float, content_type: bytes) -> Page:
        """Return the first page that has messages; if there is none, wait for one.

        If the reader stops at a transaction in the meantime, the answer has begun, and names it.
        """
        page = await self.page()
        while page.count == 0 and not self.is_done:
            page = await self.page()
        if page.count == 0 and wait_s > 0:
            return await self._wait_for_page(exchange, wait_s, content_type)
        return page

    def headers(self, stopped_at: int | None) -> Headers:
        """Return the headers of an answer whose reader stops at a transaction."""
        return () if stopped_at is None else ((_STOPPED_AT, b"%d" % stopped_at),)

    async def _wait_for_page(self, exchange: Exchange, wait_s: float, content_type: bytes) -> Page:
        """Wait for a page. Raises as `wait_for`."""
        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def tell(transaction_id: int) -> None:
            if not stopped.done():
                stopped.set_result(transaction_id)

        async def begin() -> None:
            await exchange.start_stream(content_type, self.headers(stopped.result()))
            exchange.send_head()

        work = partial(self.page, wait_s, stopped=tell)
        return await wait_for(exchange, work, event=stopped, at_event=begin)


class _FilteredPoll(_Poll):
    """A poll with a filter. Its answer is one part, which says where to continue.

    The answer ends after `_FILTERED_S_MAX`, or about `_JOINED_BYTES_MAX` of messages that match.
    """

    _is_at_end = False

    async def page(
        self,
        wait_s: float = 0.0,
        messages_max: int | None = None,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the next page, and move the position after it."""
        page = await super().page(wait_s, messages_max, stopped)
        self._is_at_end = page.next_position is None
        self._reading = self._reading._replace(position=page.after(self._reading.position))
        return page

    async def first_page(self, exchange: Exchange, wait_s: float, content_type: bytes) -> Page:
        """Return all messages of the answer; if there are none, wait for one."""
        until_s = monotonic() + _FILTERED_S_MAX
        page = await self.page()
        blocks, count = list(page.blocks), page.count
        size = sum(len(block.items) for block in blocks)
        while not self.is_done and size < _JOINED_BYTES_MAX and monotonic() < until_s:
            await exchange.check_again()
            page = await self.page()
            blocks += page.blocks
            count += page.count
            size += sum(len(block.items) for block in page.blocks)
        if not count and self._is_at_end and wait_s > 0:
            page = await self._wait_for_page(exchange, wait_s, content_type)
            blocks, count = list(page.blocks), page.count
        self.is_done = True
        return replace(page, blocks=blocks, count=count)

    def headers(self, stopped_at: int | None) -> Headers:
        """Return the headers of an answer, which say where to continue."""
        return (
            *super().headers(stopped_at),
            (NEXT_POSITION.encode(), self._reading.position.hex().encode()),
            (AT_END.encode(), b"true" if self._is_at_end else b"false"),
        )


def _is_all(page: Page, reading: Reading, wait_s: float) -> bool:
    """Whether a page is the whole answer."""
    is_last = page.next_position is None or page.count == reading.limit
    return is_last and (page.count > 0 or wait_s == 0)


async def poll(exchange: Exchange) -> None:
    """Answer with messages."""
    body = await read_body(exchange)
    topic_id, messaging = exchange.topic_id, exchange.context.services.messaging
    body_format = exchange.body_format()
    reading, wait_s = _reading_of(exchange, body_format, body)
    tells_stop = exchange.query and flag_of(values_of(exchange.query), "stopped_at", default=False)
    if exchange.wants_decoded:
        decoded: PollAnswer = await DecodedAnswer.to(exchange)
        decoded = AnswerWithStop(decoded) if tells_stop else decoded
        await _answer(exchange, _poll_of(messaging, topic_id, reading), wait_s, decoded)
        return
    answer_format = exchange.answer_format(body_format)
    joined = answer_format.joined_messages
    answer: PollAnswer = EncodedAnswer(answer_format)
    if tells_stop:
        answer = AnswerWithStop(answer)

    at_once = None if joined or tells_stop else messaging.page_in_memory(topic_id, reading)
    if at_once is not None and _is_all(at_once, reading, wait_s):
        parts = encoded_parts(at_once, answer_format, first=True)
        parts.append(answer_format.encode_end(first=not parts))
        await exchange.answer(OK, b"".join(parts), answer_format.content_type.encode())
        return
    request = _poll_of(messaging, topic_id, reading, joined)
    await _answer(exchange, request, wait_s, answer)


def _poll_of(
    messaging: MessagingService, topic_id: TopicId, reading: Reading, joined_messages: int = 0
) -> _Poll:
    kind = _Poll if reading.filter is None else _FilteredPoll
    return kind(messaging, topic_id, reading, joined_messages)


async def _answer(exchange: Exchange, request: _Poll, wait_s: float, answer: PollAnswer) -> None:
    await streaming(exchange, request.topic_id, _answer_in_parts(exchange, request, wait_s, answer))


async def streaming(exchange: Exchange, topic_id: TopicId, work: Awaitable[None]) -> None:
    """Do the work of an answer; if it fails after the answer has begun, log that."""
    try:
        await work
    except ClientGone:
        raise
    except Exception as error:
        if not exchange.is_begun:
            raise
        # The connection of an answer without its end is closed.
        if isinstance(error, RequestError | RulesUnavailable):
            _refused_streams.add(f"{topic_id}: {error}")
        else:
            _broken_streams.add(topic_id, error)
        exchange.status = BROKEN_OFF


async def _answer_in_parts(
    exchange: Exchange, poll: _Poll, wait_s: float, answer: PollAnswer
) -> None:
    page = await poll.first_page(exchange, wait_s, answer.content_type)
    page = await poll.with_joined(page)
    parts = await answer.part(page)
    if poll.is_done and not exchange.is_begun:
        whole = b"".join((*parts, answer.end()))
        await exchange.answer(OK, whole, answer.content_type, poll.headers(page.stopped_at))
        return
    if not exchange.is_begun:
        await exchange.start_stream(answer.content_type)
    while True:
        if parts:
            await exchange.send_part(b"".join(parts), more=True)
        if poll.is_done:
            break
        page = await poll.with_joined(await poll.page())
        parts = await answer.part(page)
        await exchange.check_again()
    await exchange.send_part(answer.end(), more=False)


OPERATIONS = (
    Operation(
        name="poll",
        action=Action.CONSUME,
        method="POST",
        path=f"{TOPIC}/poll",
        handler=poll,
        tag="Messages",
        summary="Read messages",
        description=(
            "A poll returns messages in order, from `startFrom` on: a message id, a publish time "
            "in "
            "milliseconds since 1970, or the oldest message. Without a transaction it returns "
            "all messages, including rolled-back ones; with a transaction, those that the "
            "transaction can see, up to the first one that may still commit; with "
            "`isolation=committed`, those that a new transaction would see. The server does not "
            "store the position of a poll: to continue, poll from the last id with `inclusive` "
            "false. With a `filter` only messages that match are returned; the header "
            "`TMS-Next-Position` says where to continue. An answer that breaks off before its end "
            "is incomplete. For many messages, use "
            "Accept `application/vnd.apache.arrow.stream`. With Accept "
            "`application/json;decode=true` each message has a decoded `value`."
        ),
        query=POLL_QUERY,
        request=POLL_CONTENT,
        success="The messages, in the format of the request or of Accept; with gzip if the client "
        "accepts it.",
        answer=MESSAGES_CONTENT,
        answer_headers={
            "TMS-Stopped-At-Transaction": {
                "description": (
                    "The id of the transaction at which the reader stopped, because it may still "
                    "commit. An answer of one page has this header. An answer that waits for "
                    "that transaction has it too: its head is sent after a second, and its body "
                    "follows. After "
                    "an answer of several pages, the next poll has it."
                ),
                "schema": POINTER,
            },
            "TMS-Next-Position": {
                "description": (
                    "Where to continue after a poll with a filter: the next `startFrom`."
                ),
                "schema": MESSAGE_ID,
            },
            "TMS-At-End": {
                "description": (
                    "`true` if a poll with a filter has read everything that exists. If `false`, "
                    "more may match: it ended at its limit, or because it read for 5 seconds."
                ),
                "schema": {"type": "boolean"},
            },
        },
        errors=(
            "topic_not_found",
            "other_shard",
            "invalid_body",
            "id_as_number",
            "invalid_message_id",
            "invalid_start_time",
            "start_time_in_seconds",
            "invalid_limit",
            "invalid_wait",
            "invalid_transaction",
            "invalid_transaction_id",
            "invalid_query",
            "invalid_filter",
            "not_acceptable",
            "transaction_unknown",
            "transaction_not_in_progress",
            "transactions_elsewhere",
            "schemas_unavailable",
            "unsupported_content_type",
        ),
        is_taskless=True,
        is_compressed=True,
    ),
)
