"""Topics: create, replace their properties, trim, show, list, delete.

Bodies are JSON, even without a Content-Type, because CDAP's Java client sends none. An empty body
means the default properties, as in CDAP.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import (
    JSON_ERRORS,
    Operation,
)
from api.http.request_body import read_body
from api.openapi.schemas import (
    PROPERTIES_CONTENT,
    TOPIC_CONTENT,
    TOPICS_CONTENT,
    TRIM_CONTENT,
)
from api.resources.of_shard import SHARD_PARAMETER, services_of
from api.resources.paths import TOPIC, TOPICS
from tms.core.errors import InvalidRequest
from tms.core.values.message import MessageId, check_start_ms, parse_id, position_of
from tms.core.values.topic import check_namespace
from tms.security.resources import Action, topic_resource
from tms.wire.json_topics import TopicBody, TrimBody
from tms.wire.json_values import decode, int64

_encode = msgspec.json.Encoder().encode
_LOOKED_AT_ONCE = 500


async def _read_properties(exchange: Exchange) -> bytes:
    """Return a body of properties; it may be six times their size, because of JSON's escapes."""
    exchange.check_json()
    return await read_body(exchange, 6 * exchange.context.limits.topic_properties_bytes_max)


def _properties_of(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    properties = decode(object, body, code="invalid_properties")
    if not isinstance(properties, dict):
        raise InvalidRequest("invalid_properties", given=type(properties).__name__)
    return properties


async def create(exchange: Exchange) -> None:
    """Create a topic."""
    body = await _read_properties(exchange)
    if exchange.use is not None:
        exchange.use.take_topic()
    await exchange.context.services.messaging.create_topic(
        exchange.topic_id, _properties_of(body), caller=exchange.caller
    )
    await exchange.answer(OK)


async def update(exchange: Exchange) -> None:
    """Replace a topic's properties."""
    body = await _read_properties(exchange)
    await exchange.context.services.messaging.update_topic(
        exchange.topic_id, _properties_of(body), caller=exchange.caller
    )
    await exchange.answer(OK)


async def trim(exchange: Exchange) -> None:
    """Trim a topic: expire its messages from before a time."""
    body = await read_body(exchange)
    exchange.check_only_json()
    before = decode(TrimBody, body).before
    position = position_of(
        parse_id(before) if isinstance(before, str) else check_start_ms(int64(before, "before"))
    )
    await exchange.context.services.messaging.trim_topic(
        exchange.topic_id, MessageId.decode(position).publish_timestamp, caller=exchange.caller
    )
    await exchange.answer(OK)


async def show(exchange: Exchange) -> None:
    """Answer with a topic's properties, in the seed's form or in CDAP's."""
    topic = await exchange.context.services.messaging.topic(exchange.topic_id)
    properties: object = topic.all_properties()
    if exchange.context.topic_info == "seed":
        properties = TopicBody(topic.id.name, topic.all_properties())
    await exchange.answer_tagged(_encode(properties))


async def list_names(exchange: Exchange) -> None:
    """Answer with the names of a namespace's topics."""
    namespace = check_namespace(exchange.namespace)
    names = await services_of(exchange).messaging.topics(namespace)
    if exchange.admission is not None:
        names = await _seen(exchange, namespace, names)
    await exchange.answer(OK, _encode(names), JSON_TYPE)


async def _seen(exchange: Exchange, namespace: str, names: Sequence[str]) -> list[str]:
    """Return the topics that the caller may see, with turns for other requests."""
    seen: list[str] = []
    for first in range(0, len(names), _LOOKED_AT_ONCE):
        some = names[first : first + _LOOKED_AT_ONCE]
        seen += [
            name for name in some if exchange.may(Action.DESCRIBE, topic_resource(namespace, name))
        ]
        await asyncio.sleep(0)
    return seen


async def delete(exchange: Exchange) -> None:
    """Delete a topic."""
    await exchange.context.services.messaging.delete_topic(
        exchange.topic_id, caller=exchange.caller
    )
    await exchange.answer(OK)


_PROPERTIES_ERRORS = (
    "unsupported_content_type",
    "topic_of_the_service",
    "invalid_properties",
    "invalid_ttl",
    "topic_properties_too_large",
    "ttl_over_namespace_limit",
)

_manage = partial(Operation, action=Action.MANAGE, tag="Topics")
_describe = partial(Operation, action=Action.DESCRIBE, method="GET", tag="Topics")
OPERATIONS = (
    _manage(
        name="createTopic",
        method="PUT",
        path=TOPIC,
        handler=create,
        summary="Create a topic",
        description="The body may be empty. It is JSON, with any Content-Type.",
        request=PROPERTIES_CONTENT,
        is_body_required=False,
        success="The topic was created.",
        errors=("topic_exists", "topic_limit_reached", *_PROPERTIES_ERRORS),
    ),
    _manage(
        name="updateTopic",
        method="PUT",
        path=f"{TOPIC}/properties",
        handler=update,
        summary="Replace a topic's properties",
        description=(
            "All properties are replaced: those missing in the body are removed, and `ttl` gets "
            "its default again."
        ),
        request=PROPERTIES_CONTENT,
        is_body_required=False,
        success="The properties were replaced.",
        errors=("topic_not_found", *_PROPERTIES_ERRORS),
    ),
    _manage(
        name="trimTopic",
        method="POST",
        path=f"{TOPIC}/trim",
        handler=trim,
        summary="Expire all messages before a time",
        description=(
            "Readers no longer get messages from before the time, or before the time of the id, "
            "and cleanup deletes them. For a stored message, the time at which it was stored "
            "counts. A second request changes nothing."
        ),
        request=TRIM_CONTENT,
        success="The topic is trimmed.",
        errors=(
            "topic_not_found",
            "topic_of_the_service",
            "invalid_body",
            "invalid_trim_time",
            "invalid_start_time",
            "start_time_in_seconds",
            "invalid_message_id",
            *JSON_ERRORS,
        ),
    ),
    _describe(
        name="getTopic",
        path=TOPIC,
        handler=show,
        is_tagged=True,
        summary="Show a topic's properties",
        description=(
            "All values are strings, including `ttl` and `generation`. A server started with "
            "`--topic-info flat` returns only the properties, as CDAP does."
        ),
        success="The topic's name and properties.",
        answer=TOPIC_CONTENT,
        errors=("topic_not_found",),
    ),
    _manage(
        name="deleteTopic",
        method="DELETE",
        path=TOPIC,
        handler=delete,
        summary="Delete a topic and all of its messages",
        description="A new topic with the same name has none of the old messages.",
        success="The topic was deleted.",
        errors=("topic_not_found", "topic_of_the_service"),
    ),
    _describe(
        name="listTopics",
        decided_by=DecidedBy.ANSWER,
        path=TOPICS,
        handler=list_names,
        summary="List the topics of a namespace",
        description=(
            "They are in the order of the metadata table's row keys, which end with `:`, so "
            "`t-1` comes before `t`. A namespace without topics has an empty list."
        ),
        query=(SHARD_PARAMETER,),
        success="The names of the topics.",
        answer=TOPICS_CONTENT,
    ),
)
