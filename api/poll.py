"""Poll messages: one answer where one page holds all, a stream of pages where not.

A stream gives the next page when the connection has taken the one before, so memory per request is
a page or two whatever the limit. Its status is sent before all is read: an error after that can
only break the connection, which leaves the body without its end (`tms.wire` sees that it is cut).
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from api.exchange import BROKEN_OFF, OK, ClientGone, Exchange
from api.operation import BODY_ERRORS, TOPIC_ERRORS, Operation
from api.query import choice_of, id_of, polled_transaction_of, values_of, wait_of
from api.request_body import read_body
from api.schema_parts import POINTER
from api.schemas import MESSAGES_CONTENT, POLL_CONTENT, POLL_QUERY
from api.topics import TOPIC
from tms.core.errors import InvalidRequest
from tms.core.message import MessageBlock, position_of
from tms.core.messaging import Page
from tms.core.topic import TopicId
from tms.core.transaction import Transaction
from tms.wire.bodies import MessagesFormat, PollRequest
from tms.wire.transaction_codec import decode_transaction

_log = logging.getLogger("tms.api")
_LOG_INTERVAL_S = 60.0
_STOPPED_AT = b"tms-stopped-at-transaction"
_JOINED_BYTES_MAX = 1024 * 1024
"""Joined blocks take in no more pages once they have so many bytes."""


class _BrokenStreams:
    """Logs a broken stream, at most one a minute: a sick store breaks thousands of them."""

    def __init__(self) -> None:
        self._unlogged = 0
        self._logged_at = -math.inf

    def add(self, topic_id: TopicId, error: Exception) -> None:
        self._unlogged += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_INTERVAL_S:
            return
        _log.error("polls cut off: %d, now of %s", self._unlogged, topic_id, exc_info=error)
        self._unlogged = 0
        self._logged_at = now


_broken_streams = _BrokenStreams()


def _view_of(
    request: PollRequest, values: Mapping[str, str]
) -> tuple[Transaction | int | None, bool]:
    """Return the transaction to read by, and whether only what is committed is to be given.

    Raises `InvalidRequest` where the body and the query ask for more than one of these.
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
    return transaction or transaction_id, committed


def _end_of(request: PollRequest, values: Mapping[str, str], wait_s: float) -> bytes | None:
    """Return the id before which a poll ends. Raises `InvalidRequest` where that is contradicted.

    A range is there, or is not: there is nothing to wait for.
    """
    end = request.end
    if "end" in values:
        end = id_of(values, "end")
        if request.end not in (None, end):
            raise InvalidRequest("invalid_query", end=end.hex(), in_body=request.end.hex())
    if end is not None and wait_s:
        raise InvalidRequest("invalid_query", end=end.hex(), wait=wait_s)
    return end


class _Poll:
    """What one poll asks, and how far it has got."""

    def __init__(
        self,
        exchange: Exchange,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int,
        view: tuple[Transaction | int | None, bool],
        end: bytes | None,
        joined_messages: int,
    ) -> None:
        self._exchange = exchange
        self._topic_id = topic_id
        self._position = position
        self._transaction, self._committed = view
        self._end = end
        self._joined_messages = joined_messages
        self.left = limit
        self.is_done = False

    async def page(self, wait_s: float = 0.0, messages_max: int | None = None) -> Page:
        """Return the next page and go on behind it."""
        page = await self._exchange.context.services.messaging.page(
            self._topic_id,
            self._position,
            limit=min(self.left, messages_max or self._joined_messages or self.left),
            transaction=self._transaction,
            committed=self._committed,
            wait_s=wait_s,
            end=self._end,
        )
        self.left -= page.count
        self.is_done = page.next_position is None or self.left <= 0
        if page.next_position is not None:
            self._position = page.next_position
        return page

    async def with_joined(self, page: Page) -> Page:
        """Return the page; where blocks are joined, as one block, with some pages behind it."""
        if not self._joined_messages:
            return page
        blocks, count = list(page.blocks), page.count
        size = sum(len(block.items) for block in blocks)
        while not self.is_done and count < self._joined_messages and size < _JOINED_BYTES_MAX:
            page = await self.page(messages_max=self._joined_messages - count)
            blocks += page.blocks
            count += page.count
            size += sum(len(block.items) for block in page.blocks)
        block = MessageBlock(count, b"".join([block.items for block in blocks]))
        return replace(page, blocks=(block,) if count else (), count=count)

    async def first_page(self, wait_s: float) -> Page:
        """Return the first page that has messages; if there is none, wait for one."""
        page = await self.page()
        while page.count == 0 and not self.is_done:
            page = await self.page()
        if page.count == 0 and wait_s > 0:
            self._exchange.waited = True
            page = await self._wait_for_page(wait_s)
        return page

    async def _wait_for_page(self, wait_s: float) -> Page:
        """Wait for a page, or until the client leaves. Raises `ClientGone`."""
        page = asyncio.create_task(self.page(wait_s))
        gone = asyncio.create_task(_disconnect(self._exchange))
        try:
            await asyncio.wait((page, gone), return_when=asyncio.FIRST_COMPLETED)
            if not page.done():
                raise ClientGone
            return page.result()
        finally:
            await _cancel(page, gone)


async def _disconnect(exchange: Exchange) -> None:
    """Return when the client has closed the connection. Its body must have been read."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _encode(page: Page, body_format: MessagesFormat, *, first: bool) -> list[bytes]:
    parts = []
    for block in page.blocks:
        parts.append(body_format.encode_block(block, first=first))
        first = False
    return parts


def _headers_of(page: Page) -> tuple[tuple[bytes, bytes], ...]:
    return () if page.stopped_at is None else ((_STOPPED_AT, b"%d" % page.stopped_at),)


async def poll(exchange: Exchange) -> None:
    """Answer with messages."""
    context = exchange.context
    body = await read_body(exchange)
    topic_id = exchange.topic_id
    body_format = exchange.body_format()
    request = body_format.decode_poll(body)
    position = position_of(request.start_from, inclusive=request.inclusive)
    limit = context.services.messaging.limit_of(request.limit)
    values = values_of(exchange.scope["query_string"])
    wait_s = wait_of(values, context.limits.poll_wait_s_max)
    view, end = _view_of(request, values), _end_of(request, values, wait_s)
    answer_format = exchange.answer_format(body_format)

    joined = answer_format.joined_messages
    asked = _Poll(
        exchange, topic_id, position, limit=limit, view=view, end=end, joined_messages=joined
    )
    page = await asked.with_joined(await asked.first_page(wait_s))
    first = _encode(page, answer_format, first=True)
    content_type = answer_format.content_type.encode()
    if asked.is_done:
        first.append(answer_format.encode_end(first=not first))
        await exchange.answer(OK, b"".join(first), content_type, _headers_of(page))
        return
    await exchange.start_stream(content_type)
    try:
        await _stream(exchange, asked, answer_format, first)
    except ClientGone:
        raise
    except Exception as error:
        # An ASGI server closes the connection of an answer that is left without its end.
        _broken_streams.add(topic_id, error)
        exchange.status = BROKEN_OFF


async def _stream(
    exchange: Exchange, asked: _Poll, answer_format: MessagesFormat, first: Sequence[bytes]
) -> None:
    gone = asyncio.create_task(_disconnect(exchange))
    is_begun = bool(first)
    try:
        if is_begun:
            await exchange.send_part(b"".join(first), more=True)
        while not asked.is_done:
            page = await asked.with_joined(await asked.page())
            if gone.done():
                raise ClientGone
            if page.count:
                part = b"".join(_encode(page, answer_format, first=not is_begun))
                is_begun = True
                await exchange.send_part(part, more=True)
        await exchange.send_part(answer_format.encode_end(first=not is_begun), more=False)
    finally:
        await _cancel(gone)


OPERATIONS = (
    Operation(
        name="poll",
        method="POST",
        path=f"{TOPIC}/poll",
        handler=poll,
        tag="Messages",
        summary="Read messages",
        description=(
            "Gives messages in order, from `startFrom` on: a message id, a publish time in "
            "milliseconds, or the oldest message. Without a transaction, all messages, rolled back "
            "ones included; with one, those that it can see, up to the first that may still "
            "commit; with `isolation=committed`, what a transaction would see that started now. "
            "There is no position on the server: to go on, poll from the last id with "
            "`inclusive` false. An answer that breaks off without its end is incomplete. For many "
            "messages, Accept `application/vnd.apache.arrow.stream`."
        ),
        query=POLL_QUERY,
        request=POLL_CONTENT,
        success="The messages, in the format of the request or of Accept; gzip where accepted.",
        answer=MESSAGES_CONTENT,
        answer_headers={
            "TMS-Stopped-At-Transaction": {
                "description": (
                    "The write pointer at which a transactional poll stopped, because it may still "
                    "commit. Only of answers that are sent at once."
                ),
                "schema": POINTER,
            }
        },
        errors=(
            "topic_not_found",
            "invalid_body",
            "invalid_message_id",
            "invalid_start_time",
            "invalid_limit",
            "invalid_wait",
            "invalid_transaction",
            "invalid_transaction_id",
            "invalid_query",
            "not_acceptable",
            "transaction_unknown",
            "transaction_not_in_progress",
            "transactions_elsewhere",
            "unsupported_content_type",
            *TOPIC_ERRORS,
            *BODY_ERRORS,
        ),
        is_hot=True,
        is_compressed=True,
    ),
)
