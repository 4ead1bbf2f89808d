"""Messages as server-sent events: `GET …/stream`.

1. A stream has one page in memory. It reads the next one after the connection has taken the one
   before, so a slow reader lags behind and slows nobody.
2. Each event has the id to continue from. A reader that is cut off sends the last one as
   `Last-Event-ID`, and gets each later message once, from any server.
3. If nothing is published, an event without data is sent each `HEARTBEAT_S` seconds; it has the
   position. The permission is checked again each `CHECK_S` seconds, and before each page is sent.
4. Streams that send the same messages at once share the encoded events, and each waits in the task
   of its request, without another one.
"""

import asyncio
import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from api.http.break_off import BreakOff
from api.http.door.access_control import CHECK_S
from api.http.exchange import Exchange
from api.http.operation import Operation
from api.http.query_parameters import choice_of, id_of, invalid, time_of, values_of, wait_of
from api.openapi.stream_schemas import STREAM_CONTENT, STREAM_QUERY
from api.resources.paths import TOPIC
from api.resources.poll import streaming
from tms.core.runtime.loop_turns import LoopTurns
from tms.core.services.messaging import MessagingService
from tms.core.values.filters import filter_of
from tms.core.values.groups import SeekTo
from tms.core.values.message import FIRST_ID, id_after, parse_id, position_of
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId
from tms.security.resources import Action
from tms.wire.event_stream import (
    EVENT_STREAM_TYPE,
    RETRY,
    encode_events,
    encode_position,
    encode_stop,
)

HEARTBEAT_S: Final = 15.0
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the events
)
_STARTS: Final = ("after", "time", "start")


async def stream(exchange: Exchange) -> None:
    """Answer with messages until the client leaves."""
    topic_id, messaging = exchange.topic_id, exchange.context.services.messaging
    values = values_of(exchange.query)
    isolation = choice_of(values, "isolation", ("all", "committed"), "all")
    position = await _position_of(exchange, messaging, values)
    limit = messaging.limit_of(None)
    view, text = isolation_of(committed=isolation == "committed"), values.get("filter")
    reading = Reading(position, limit, view, None, None if text is None else filter_of(text))
    await messaging.page(topic_id, reading._replace(limit=1))  # an error must not begin an answer
    wait_s = wait_of(values, math.inf) if "wait" in values else math.inf
    exchange.waited = True
    loop = asyncio.get_running_loop()
    with (
        nullcontext() if exchange.use is None else exchange.use.polls.held(),
        BreakOff(exchange, loop, check_s=CHECK_S, at_end_of_side=True),
    ):
        await streaming(exchange, topic_id, _events(exchange, messaging, topic_id, reading, wait_s))


async def _position_of(
    exchange: Exchange, messaging: MessagingService, values: Mapping[str, str]
) -> bytes:
    """Return where a stream begins. Raises `InvalidRequest`."""
    named = [name for name in _STARTS if name in values]
    if len(named) > 1:
        raise invalid(named[1], values[named[1]], f"only one of {', '.join(_STARTS)}")
    start = choice_of(values, "start", (SeekTo.START, SeekTo.END), SeekTo.START)
    last_seen = exchange.headers.get(b"last-event-id")
    if last_seen:
        return id_after(parse_id(last_seen.decode("latin-1")))
    if "after" in values:
        return id_after(id_of(values, "after"))
    if "time" in values:
        return position_of(time_of(values, "time"))
    return FIRST_ID if start == SeekTo.START else await messaging.end(exchange.topic_id)


async def _events(
    exchange: Exchange,
    messaging: MessagingService,
    topic_id: TopicId,
    reading: Reading,
    wait_s: float,
) -> None:
    """Send events until there was no message for `wait_s` seconds."""
    await exchange.start_stream(EVENT_STREAM_TYPE.encode(), _HEADERS)
    if exchange.method == "HEAD":
        await exchange.send_part(b"", more=False)
        return
    await exchange.send_part(RETRY + encode_position(reading.position), more=True)
    page_max, left_s = reading.limit, wait_s

    def report_stop(transaction_id: int) -> None:
        exchange.write_part(encode_stop(transaction_id), more=True)

    turns = LoopTurns()
    while True:
        page_s = min(HEARTBEAT_S, left_s)
        page = await messaging.page(topic_id, reading, page_s, report_stop)
        await exchange.check_again()
        left_s = wait_s if page.count else left_s - page_s
        is_over = (left_s <= 0 and page.next_position is None) or messaging.is_stopping
        position = page.after(reading.position)
        reading = reading._replace(position=position, limit=page_max)
        events = b"".join(map(encode_events, page.blocks)) or encode_position(position)
        await exchange.send_part(events, more=not is_over)
        if is_over:
            return
        await turns.give()  # pages in memory are read without a wait


OPERATIONS = (
    Operation(
        name="stream",
        action=Action.CONSUME,
        method="GET",
        path=f"{TOPIC}/stream",
        handler=stream,
        is_endless=True,
        tag="Messages",
        summary="Read messages as server-sent events",
        description=(
            "For browsers (`EventSource`) and `curl -N`. After the messages that exist, the answer "
            "has each new one as it is published; it does not end without `wait`. An event's `id` "
            "is the message id, its `data` the message as in the JSON of a poll. If a stream "
            "breaks, send the last id as `Last-Event-ID`, as browsers do by themselves: the "
            "messages after it follow, without loss or repetition. Every 15 seconds without a "
            "message, an event without data has the id to continue from. An event `stopped` names "
            "the transaction at which a reader of committed messages has stopped for a second."
        ),
        query=STREAM_QUERY,
        success="The events.",
        answer=STREAM_CONTENT,
        errors=(
            "topic_not_found",
            "other_shard",
            "invalid_message_id",
            "invalid_start_time",
            "start_time_in_seconds",
            "invalid_query",
            "invalid_filter",
            "invalid_wait",
            "transactions_elsewhere",
        ),
    ),
)
