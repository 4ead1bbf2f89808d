"""Publish, store and roll back messages.

A body is decoded on the event loop: the decoders hold the interpreter's lock, so a thread would
gain nothing and cost a switch. A body with many messages is decoded in steps, so that other tasks
get their turn.
"""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import TypeVar

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import flag_of, if_last_of, values_of, whole_number_of
from api.http.request_body import read_body
from api.openapi.schemas import (
    PUBLISH_ALL_CONTENT,
    PUBLISH_CONTENT,
    PUBLISH_QUERY,
    PUBLISHED_ALL_CONTENT,
    PUBLISHED_CONTENT,
    RANGE_CONTENT,
    STORE_CONTENT,
    WRITE_QUERY,
)
from api.resources.carried import take_publish, touch_carried
from api.resources.paths import NAMESPACE, TOPIC
from api.resources.traces import TRACEPARENT, traced
from api.resources.values import encoded
from tms.core.errors import InvalidRequest
from tms.core.services.messaging import NO_IDS, too_many_topics_at_once
from tms.security.resources import Action
from tms.wire.bodies import BodyFormat, PublishRequest, last_of
from tms.wire.json_bodies import encode_written

T = TypeVar("T")
STEPS_FROM_BYTES = 64 * 1024
"""Larger bodies are decoded in steps."""


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Return the result of steps, with a turn of the event loop between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


async def decoded(body: bytes, steps: Generator[None, None, T]) -> T:
    """Return the result of the steps that decode a body."""
    return last_of(steps) if len(body) < STEPS_FROM_BYTES else await in_turns(steps)


async def requested(exchange: Exchange, body: bytes) -> tuple[PublishRequest, BodyFormat | None]:
    """Return the decoded request of a publish or store, and its format; None is Arrow.

    Arrow has no place for the write pointer: it is in the query.
    """
    messages_max = exchange.context.limits.request_messages_max
    decode_arrow = exchange.arrow_decoder()
    if decode_arrow is None:
        body_format = exchange.body_format()
        if len(body) < STEPS_FROM_BYTES:
            request = body_format.decode_publish(body, messages_max)
        else:
            request = await in_turns(body_format.publish_steps(body, messages_max))
        if request.values:
            request = await encoded(exchange, request)
        return request, body_format
    write_pointer = whole_number_of(values_of(exchange.query), "write_pointer")
    return PublishRequest(write_pointer, decode_arrow(body, messages_max)), None


def _wanted(query: bytes) -> tuple[bool, bytes | None]:
    """Return whether to answer ids, and which entry must be the last. Raises `InvalidRequest`."""
    values = values_of(query)
    return flag_of(values, "ids", default=False), if_last_of(values)


async def publish(exchange: Exchange) -> None:
    """Publish; answer with the ids if requested, and in a transaction with the rollback range."""
    body = await read_body(exchange)
    topic_id = exchange.topic_id
    request, body_format = await requested(exchange, body)
    payloads = request.payloads
    if TRACEPARENT in exchange.headers:
        payloads = await traced(exchange, topic_id, payloads)
    take_publish(exchange, payloads)
    with_ids, if_last = _wanted(exchange.query) if exchange.query else (False, None)
    published = await exchange.context.services.messaging.publish(
        topic_id,
        payloads,
        request.write_pointer,
        if_last=if_last,
        caller=exchange.caller,
    )
    if body_format is None:
        answer = encode_written(len(request.payloads), published, with_ids=with_ids)
        await exchange.answer(OK, answer, JSON_TYPE)
    elif with_ids:
        answer = body_format.encode_published(published)
        await exchange.answer(OK, answer, body_format.content_type.encode())
    elif (written := published.rollback_range) is None:
        await exchange.answer(OK)
    else:
        answer = body_format.encode_range(written)
        await exchange.answer(OK, answer, body_format.content_type.encode())


async def publish_all(exchange: Exchange) -> None:
    """Publish to several topics at once; answer with the transaction of the publish."""
    context = exchange.context
    body = await read_body(exchange)
    body_format = exchange.body_format()
    messages_max = context.limits.request_messages_max
    request = await decoded(body, body_format.publish_all_steps(body, messages_max))
    if len(request.topics) > context.limits.topics_in_memory_max:
        raise too_many_topics_at_once(len(request.topics), context.limits.topics_in_memory_max)
    topics = {exchange.topic_of(name): messages for name, messages in request.topics.items()}
    await exchange.touches(Action.PUBLISH, list(topics))
    await touch_carried(exchange, request.carried)
    if TRACEPARENT in exchange.headers:
        topics = {each: await traced(exchange, each, topics[each]) for each in topics}
    take_publish(exchange, [each for messages in topics.values() for each in messages])
    # The body names the topics, so their shard was not known before.
    services = exchange.endpoint.context.services
    published = await services.messaging.publish_all(
        topics,
        owner=request.owner,
        sequence=request.sequence,
        request=request.carried,
        caller=exchange.caller,
    )
    answer = body_format.encode_published_all(published)
    await exchange.answer(OK, answer, body_format.content_type.encode())


async def store(exchange: Exchange) -> None:
    """Store messages under a write pointer, to be published later."""
    body = await read_body(exchange)
    topic_id = exchange.topic_id
    request, body_format = await requested(exchange, body)
    if request.write_pointer is None:
        raise InvalidRequest("invalid_store", write_pointer=None)
    payloads = request.payloads
    if TRACEPARENT in exchange.headers:
        payloads = await traced(exchange, topic_id, payloads)
    take_publish(exchange, payloads)
    await exchange.context.services.messaging.store(
        topic_id, payloads, request.write_pointer, caller=exchange.caller
    )
    if body_format is None:
        answer = encode_written(len(request.payloads), NO_IDS)
        await exchange.answer(OK, answer, JSON_TYPE)
    else:
        await exchange.answer(OK)


async def rollback(exchange: Exchange) -> None:
    """Roll back the range that a publish answered."""
    body = await read_body(exchange)
    topic_id = exchange.topic_id
    published = exchange.body_format().decode_range(body)
    await exchange.context.services.messaging.rollback(topic_id, published, caller=exchange.caller)
    await exchange.answer(OK)


_WRITE_ERRORS = (
    "other_shard",
    "topic_not_found",
    "topic_of_the_service",
    "invalid_body",
    "id_as_number",
    "invalid_query",
    "invalid_write_pointer",
    "transaction_expired",
    "transaction_unknown",
    "transaction_not_in_progress",
    "transaction_of_another",
)
SCHEMA_ERRORS = (
    "payload_without_schema",
    "payload_unfit",
    "value_unfit",
    "schema_unusable",
    "schemas_unavailable",
)
MESSAGE_ERRORS = (
    "payload_required",
    "message_too_large",
    "message_over_namespace_limit",
    "request_over_namespace_limit",
    "too_many_messages",
    "frame_too_large",
    "too_many_headers",
    "publish_rate_exceeded",
    "unsupported_content_type",
)
SCHEDULE_ERRORS = (
    "empty_publish",
    "invalid_delivery_time",
    "too_many_scheduled",
    "store_format_old",
    "key_required",
    "topic_of_the_service",
)

_row = partial(Operation, action=Action.PUBLISH, method="POST", is_taskless=True, tag="Messages")
OPERATIONS = (
    _row(
        name="publish",
        path=f"{TOPIC}/publish",
        handler=publish,
        summary="Publish messages",
        description=(
            "When the server answers, the messages are durable, and later messages come after "
            "them. With `transactionWritePointer` the messages belong to that transaction; if "
            "there are no messages, those that were stored under the pointer before are published. "
            "With `if_last` the messages are published only if the topic has no entry after that "
            "id, or none at all; otherwise the answer is 409 `topic_moved`. Every entry counts, "
            "even if it is rolled back, in progress or expired. If an answer is lost, repeat the "
            "request: it gets 409 if the first one was carried out, and you can then read after "
            "the id. With `ids=true` the answer contains the messages' ids: in JSON as a list, "
            "in Avro only the first and the last one. Sequence ids between them grow by one, and "
            "65,535 is followed "
            "by 0 of the next millisecond. Messages that were stored before have no ids in the "
            "answer. A message with a "
            "`value` is encoded by the latest schema of the topic's subject. If the topic has a "
            "`schema_check`, payloads that do not match are refused with 422."
        ),
        query=PUBLISH_QUERY,
        request=PUBLISH_CONTENT,
        success=(
            "The messages were published. The answer is empty, except in three cases. In a "
            "transaction it is a `PublishedRange` in the format of the request, and is the body "
            "of a rollback. With `ids=true` it also has the `ids`; without a transaction it has "
            "only these. For Arrow it is JSON with the number of `messages`, and with the fields "
            "of the other cases."
        ),
        answer=PUBLISHED_CONTENT,
        errors=(
            "empty_publish",
            "topic_moved",
            "key_required",
            "invalid_message_id",
            *_WRITE_ERRORS,
            *MESSAGE_ERRORS,
            *SCHEMA_ERRORS,
        ),
    ),
    _row(
        name="publishAll",
        decided_by=DecidedBy.BODY,
        path=f"{NAMESPACE}/publish",
        handler=publish_all,
        summary="Publish messages to several topics at once",
        description=(
            "The messages are published in a transaction of their own, which is started and "
            "committed at once: readers see all of them or none. With an `owner` and a `sequence` "
            "the request may be repeated: the second time it changes nothing, and the answer says "
            "so. In JSON it may move positions of subscriptions in the same step."
        ),
        request=PUBLISH_ALL_CONTENT,
        success="The messages were published, now or the first time.",
        answer=PUBLISHED_ALL_CONTENT,
        errors=(
            "topic_not_found",
            "too_many_topics_at_once",
            "invalid_body",
            "invalid_message_id",
            "invalid_topic_name",
            "invalid_owner",
            "invalid_subscription_name",
            "owner_busy",
            "other_shard",
            "subscription_moved",
            "ack_refused",
            "invalid_member",
            "subscription_not_found",
            "transaction_of_another",
            "transactions_elsewhere",
            "payload_without_schema",
            "payload_unfit",
            "schema_unusable",
            "schemas_unavailable",
            *SCHEDULE_ERRORS,
            *MESSAGE_ERRORS,
        ),
    ),
    _row(
        name="store",
        path=f"{TOPIC}/store",
        handler=store,
        summary="Store messages under a write pointer, to be published later",
        description=(
            "The request may be sent many times with the same pointer. A publish with that pointer "
            "and without messages then publishes all of them at once."
        ),
        query=WRITE_QUERY,
        request=STORE_CONTENT,
        success=(
            "The messages were stored. There is no body; for Arrow it is JSON with the number of "
            "`messages`."
        ),
        errors=(
            "invalid_store",
            "topic_is_compact",
            *_WRITE_ERRORS,
            *MESSAGE_ERRORS,
            *SCHEMA_ERRORS,
        ),
    ),
    _row(
        name="rollback",
        path=f"{TOPIC}/rollback",
        handler=rollback,
        summary="Roll back the messages of one publish",
        description=(
            "The body is the unchanged answer of the publish. A second rollback changes nothing."
        ),
        request=RANGE_CONTENT,
        success="The messages are rolled back: no transaction will see them.",
        errors=(
            "invalid_rollback_range",
            "rollback_refused",
            "rollback_of_earlier_leader",
            "unsupported_content_type",
            *_WRITE_ERRORS,
        ),
    ),
)
