"""Ranges of topics: their ends, their splits, and how far a number of messages reaches.

Bodies are JSON whatever their Content-Type says, as for topics.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, ClientGone, Exchange
from api.http.operation import Operation
from api.http.query_parameters import choice_of, id_of, values_of, whole_number_of
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.range_schemas import (
    BOUNDS_QUERY,
    ISOLATION_QUERY,
    RANGES_ASKED_CONTENT,
    RANGES_CONTENT,
    REACH_CONTENT,
    REACH_QUERY,
    SPLITS_CONTENT,
    SPLITS_QUERY,
)
from api.resources.of_shard import SHARD_PARAMETER, services_of
from api.resources.paths import NAMESPACE, TOPIC
from tms.core.values.ranges import check_topics_count
from tms.core.values.reading import Isolation
from tms.core.values.topic import check_namespace
from tms.security.resources import Action
from tms.wire.json_ranges import decode_ranges_request, encode_ranges, encode_reach, encode_splits

Result = TypeVar("Result")


async def ranges(exchange: Exchange) -> None:
    """Answer with the ranges of topics."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    check_namespace(exchange.namespace)
    names, isolation = decode_ranges_request(body)
    distinct = dict.fromkeys(names)
    check_topics_count(len(distinct))
    topic_ids = [exchange.topic_of(name) for name in distinct]
    await exchange.touches(Action.CONSUME, topic_ids)
    answer = await services_of(exchange).ranges.ranges(topic_ids, isolation)
    await exchange.answer(OK, encode_ranges(answer), JSON_TYPE)


async def splits(exchange: Exchange) -> None:
    """Answer with the parts of a range."""
    values = values_of(exchange.query)
    start, end, parts = id_of(values, "start"), id_of(values, "end"), 1
    if (parts_max := whole_number_of(values, "parts")) is not None:
        parts = parts_max
    splitting = exchange.context.services.ranges.splits(exchange.topic_id, start, end, parts)
    answer = await _unless_ended(exchange, splitting)
    await exchange.answer(OK, encode_splits(answer), JSON_TYPE)


async def reach(exchange: Exchange) -> None:
    """Answer with how far a number of messages or bytes reaches."""
    values = values_of(exchange.query)
    isolation = choice_of(values, "isolation", ("committed", "all"), "committed")
    reaching = exchange.context.services.ranges.reach(
        exchange.topic_id,
        id_of(values, "start"),
        id_of(values, "end"),
        messages=whole_number_of(values, "messages"),
        payload_bytes=whole_number_of(values, "bytes"),
        isolation=Isolation(isolation),
    )
    answer = await _unless_ended(exchange, reaching)
    await exchange.answer(OK, encode_reach(answer), JSON_TYPE)


async def _unless_ended(exchange: Exchange, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of long work, which ends if the client leaves. Raises `ClientGone`."""
    working, ended = asyncio.create_task(work), asyncio.create_task(exchange.ended())
    try:
        await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        working.cancel()
        ended.cancel()
        await asyncio.gather(working, ended, return_exceptions=True)
        del working  # an error keeps this frame alive, which must not keep the task


_RANGE_ERRORS = ("topic_not_found", "invalid_message_id", "invalid_query", "invalid_range")

_row = partial(Operation, action=Action.CONSUME, tag="Messages")
_get = partial(_row, method="GET")
OPERATIONS = (
    _row(
        name="getPositions",
        decided_by=DecidedBy.BODY,
        method="POST",
        path=f"{NAMESPACE}/positions",
        handler=ranges,
        summary="Show where topics begin and end",
        description=(
            "`end` is stable: a range below it has the same messages whenever it is read, until "
            "they expire. With `isolation` `committed`, `end` is before the first message of a "
            "transaction in progress. A topic that does not exist is null. No messages are read."
        ),
        query=(SHARD_PARAMETER,),
        request=RANGES_ASKED_CONTENT,
        success="The positions of each topic.",
        answer=RANGES_CONTENT,
        errors=("invalid_body", "invalid_topic_name", "too_many_topics", "transactions_elsewhere"),
    ),
    _get(
        name="getSplits",
        path=f"{TOPIC}/splits",
        handler=splits,
        summary="Split a range of a topic into parts of about equal size",
        description=(
            "The answer has at most `parts` consecutive ranges, which together make up the whole "
            "range. The messages are not read: the store estimates the sizes. A part may "
            "begin inside the stored messages of a transaction."
        ),
        query=(*BOUNDS_QUERY, SPLITS_QUERY),
        success="The parts in order.",
        answer=SPLITS_CONTENT,
        errors=_RANGE_ERRORS,
    ),
    _get(
        name="getReach",
        path=f"{TOPIC}/reach",
        handler=reach,
        summary="Find the end of a number of messages",
        description=(
            "The answer is the furthest end, at most `end`, with no more than the given number of "
            "messages and bytes of payload from `start` on, but at least one message. It is not "
            "after the topic's own stable end."
        ),
        query=(*BOUNDS_QUERY, *REACH_QUERY, ISOLATION_QUERY),
        success="The end, exclusive, and the size of the range before it.",
        answer=REACH_CONTENT,
        errors=("transactions_elsewhere", *_RANGE_ERRORS),
    ),
)
