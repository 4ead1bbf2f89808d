"""Interventions of operators: skip open messages of a group, or take them back from members."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.group_schemas import (
    RELEASE_CONTENT,
    RELEASED_CONTENT,
    SKIP_CONTENT,
    SKIPPED_CONTENT,
)
from api.resources.subscriptions import SUBSCRIPTION
from tms.security.resources import Action
from tms.wire import json_interventions as bodies


async def skip(exchange: Exchange) -> None:
    """Settle open messages."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    count = await exchange.context.services.groups.skip(
        exchange.topic_id, exchange.subscription, bodies.decode_skip(body)
    )
    await exchange.answer(OK, bodies.encode_skipped(count), JSON_TYPE)


async def release(exchange: Exchange) -> None:
    """Take leased messages back."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    ids, member, failed = bodies.decode_release(body)
    count = await exchange.context.services.groups.take_back(
        exchange.topic_id, exchange.subscription, ids, member=member, failed=failed
    )
    await exchange.answer(OK, bodies.encode_released(count), JSON_TYPE)


_row = partial(
    Operation,
    is_always_audited=True,
    action=Action.SUBSCRIBE,
    method="POST",
    tag="Groups",
    errors=(
        "invalid_body",
        "invalid_group",
        "invalid_message_id",
        "subscription_not_found",
        "subscription_is_single",
        "topic_not_found",
        *JSON_ERRORS,
    ),
)
OPERATIONS = (
    _row(
        name="skipMessages",
        path=f"{SUBSCRIPTION}/skip",
        handler=skip,
        summary="Skip open messages of a group",
        description="They are settled, whoever has them, and never delivered to the group again.",
        request=SKIP_CONTENT,
        success="How many of them were open.",
        answer=SKIPPED_CONTENT,
    ),
    _row(
        name="releaseMessages",
        path=f"{SUBSCRIPTION}/release",
        handler=release,
        summary="Take messages of a group back from their members",
        description=(
            "Others get them at once. No attempt is counted, unless `failed` is true. By key, the "
            "later messages of their keys go back too."
        ),
        request=RELEASE_CONTENT,
        success="How many messages were taken back.",
        answer=RELEASED_CONTENT,
    ),
)
