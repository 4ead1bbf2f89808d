"""The dead letters of a group: listed, redriven and dropped."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.query_parameters import id_of, limit_of, values_of
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.group_schemas import (
    DEAD_LETTERS_CONTENT,
    DROP_CONTENT,
    DROPPED_CONTENT,
    OPEN_QUERY,
    REDRIVE_CONTENT,
    REDRIVEN_CONTENT,
)
from api.resources.subscriptions import SUBSCRIPTION
from tms.core.values.groups import REDRIVEN_MAX
from tms.security.resources import Action, topic_resource
from tms.wire import json_dead_letters as bodies

_LIMIT = 100
_DEAD = f"{SUBSCRIPTION}/dead"


async def _check_may_read(exchange: Exchange) -> None:
    """Raise `NotPermitted` unless the caller may read the topic of dead letters."""
    group = await exchange.context.services.groups.group(exchange.topic_id, exchange.subscription)
    name = group.settings.dead_letter
    if name:
        resource = topic_resource(exchange.topic_id.namespace, name)
        exchange.check_access(Action.CONSUME, resource)


async def list_dead_letters(exchange: Exchange) -> None:
    """Answer with dead letters."""
    values = values_of(exchange.query)
    await _check_may_read(exchange)
    letters = await exchange.context.services.groups.dead_letters(
        exchange.topic_id,
        exchange.subscription,
        after=id_of(values, "after") if "after" in values else None,
        limit=min(limit_of(values) or _LIMIT, REDRIVEN_MAX),
    )
    await exchange.answer(OK, bodies.encode_letters(letters), JSON_TYPE)


async def redrive(exchange: Exchange) -> None:
    """Redrive dead letters: reopen their messages, or publish them again."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    ids, after, limit, publish = bodies.decode_redrive(body)
    await _check_may_read(exchange)
    if publish:
        topic_id = exchange.topic_id
        exchange.check_access(Action.PUBLISH, topic_resource(topic_id.namespace, topic_id.name))
    outcome = await exchange.context.services.groups.redrive(
        exchange.topic_id, exchange.subscription, ids, after=after, limit=limit, publish=publish
    )
    await exchange.answer(OK, bodies.encode_redriven(outcome), JSON_TYPE)


async def drop(exchange: Exchange) -> None:
    """Drop dead letters."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    ids = bodies.decode_drop(body)
    count = await exchange.context.services.groups.drop_dead_letters(
        exchange.topic_id, exchange.subscription, ids
    )
    await exchange.answer(OK, bodies.encode_dropped(count), JSON_TYPE)


_ERRORS = (
    "invalid_group",
    "invalid_message_id",
    "subscription_not_found",
    "subscription_is_single",
    "topic_not_found",
)
_row = partial(Operation, action=Action.SUBSCRIBE, tag="Groups")
_change = partial(
    _row,
    is_always_audited=True,
    method="POST",
    errors=("invalid_body", *_ERRORS, *JSON_ERRORS),
)
OPERATIONS = (
    _row(
        name="listDeadLetters",
        method="GET",
        path=_DEAD,
        handler=list_dead_letters,
        summary="List a group's dead letters",
        description=(
            "Those that were neither redriven nor dropped, the oldest first. It needs the action "
            "`consume` on their topic, too."
        ),
        query=OPEN_QUERY,
        success="The dead letters; if `next` is not null, continue with it as `after`.",
        answer=DEAD_LETTERS_CONTENT,
        errors=("invalid_limit", "invalid_query", *_ERRORS),
    ),
    _change(
        name="redrive",
        path=f"{_DEAD}/redrive",
        handler=redrive,
        summary="Redrive dead letters",
        description=(
            "The group gets them again, from the first attempt; other groups do not. With "
            "`publish` they are published anew, for every reader of the topic. Each dead letter "
            "is redriven once. Those whose messages have expired stay, and do not count towards "
            "`limit`. It needs the action `consume` on their topic, and with `publish` also "
            "`publish` on the group's."
        ),
        request=REDRIVE_CONTENT,
        errors=("invalid_body", "too_many_open", *_ERRORS, *JSON_ERRORS),
        success=(
            "How many messages are given again; if `next` is not null, continue with it as `after`."
        ),
        answer=REDRIVEN_CONTENT,
    ),
    _change(
        name="dropDeadLetters",
        path=f"{_DEAD}/drop",
        handler=drop,
        summary="Drop dead letters",
        description="They are not listed any more. Their topic keeps them until they expire.",
        request=DROP_CONTENT,
        success="How many dead letters were dropped.",
        answer=DROPPED_CONTENT,
    ),
)
