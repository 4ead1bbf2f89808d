"""Subscriptions of both kinds: positions of consumers in a topic, and groups. Bodies are JSON."""

from functools import partial

from api.http.door.guarded import DecidedBy
from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.transaction_schemas import (
    EITHER_CONTENT,
    MOVE_CONTENT,
    POSITION_CONTENT,
    SUBSCRIPTION_CONTENT,
    SUBSCRIPTIONS_CONTENT,
)
from api.resources.dead_letter_topics import check_may_name
from api.resources.paths import TOPIC
from tms.core.errors import SubscriptionIsShared
from tms.core.values.subscriptions import SubscriptionPosition
from tms.security.resources import Action, topic_resource
from tms.security.rule_book import SOME
from tms.wire import json_subscriptions as bodies
from tms.wire.json_groups import decode_new, encode_group

SUBSCRIPTIONS = f"{TOPIC}/subscriptions"
SUBSCRIPTION = f"{SUBSCRIPTIONS}/{{subscription}}"


async def _answer(exchange: Exchange, subscription: SubscriptionPosition) -> None:
    await exchange.answer(OK, bodies.encode_subscription(subscription), JSON_TYPE)


async def create(exchange: Exchange) -> None:
    """Create a subscription."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json(body)
    new, services = decode_new(body), exchange.context.services
    if new.settings is not None:
        await check_may_name(exchange, new.settings.attempts_max, new.settings.dead_letter)
        group = await services.groups.create_group(
            exchange.topic_id, exchange.subscription, new.settings, new.after
        )
        await exchange.answer(OK, encode_group(group), JSON_TYPE)
        return
    after = new.after if isinstance(new.after, bytes) else None
    created = await services.subscriptions.create_subscription(
        exchange.topic_id, exchange.subscription, after
    )
    await _answer(exchange, created)


async def show(exchange: Exchange) -> None:
    """Answer with a position."""
    services, place = exchange.context.services, (exchange.topic_id, exchange.subscription)
    try:
        await _answer(exchange, await services.subscriptions.subscription(*place))
    except SubscriptionIsShared:
        group = await services.groups.group(*place)
        await exchange.answer(OK, encode_group(group), JSON_TYPE)


async def list_subscriptions(exchange: Exchange) -> None:
    """Answer with a topic's positions."""
    topic_id = exchange.topic_id
    resource = topic_resource(topic_id.namespace, topic_id.name)
    exchange.check_access(Action.SUBSCRIBE, resource, SOME)
    visible = [
        subscription
        for subscription in await exchange.context.services.subscriptions.subscriptions(topic_id)
        if exchange.may(Action.SUBSCRIBE, resource, subscription.name)
    ]
    await exchange.answer(OK, bodies.encode_subscriptions(visible), JSON_TYPE)


async def advance(exchange: Exchange) -> None:
    """Move a position."""
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    exchange.check_only_json()
    move = bodies.decode_move(body, exchange.topic_id, exchange.subscription)
    await _answer(exchange, await exchange.context.services.subscriptions.advance(move))


async def delete(exchange: Exchange) -> None:
    """Delete a position."""
    services, place = exchange.context.services, (exchange.topic_id, exchange.subscription)
    try:
        await services.subscriptions.delete_subscription(*place)
    except SubscriptionIsShared:
        await services.groups.delete_group(*place)
    await exchange.answer(OK)


_POSITION_ERRORS = ("invalid_body", "invalid_message_id", *JSON_ERRORS)

_row = partial(Operation, action=Action.SUBSCRIBE, tag="Subscriptions")
_get = partial(_row, method="GET")
OPERATIONS = (
    _row(
        name="createSubscription",
        method="PUT",
        path=SUBSCRIPTION,
        handler=create,
        summary="Create a subscription",
        description=(
            "A subscription is a position in the topic, by default before the oldest message, or, "
            "with `kind` shared, a group. The body may be empty."
        ),
        request=POSITION_CONTENT,
        is_body_required=False,
        success="The subscription.",
        answer=EITHER_CONTENT,
        errors=(
            "subscription_exists",
            "too_many_subscriptions",
            "invalid_group",
            "transactions_elsewhere",
            "store_format_old",
            "topic_not_found",
            "other_shard",
            *_POSITION_ERRORS,
        ),
    ),
    _get(
        name="getSubscription",
        or_action=Action.TAKE,  # a member reads the order of its group
        path=SUBSCRIPTION,
        handler=show,
        summary="Show a subscription's position",
        description="To continue, poll from `after` with `inclusive` false.",
        success="The subscription.",
        answer=EITHER_CONTENT,
        errors=("subscription_not_found", "topic_not_found"),
    ),
    _row(
        name="deleteSubscription",
        is_always_audited=True,
        method="DELETE",
        path=SUBSCRIPTION,
        handler=delete,
        summary="Delete a subscription",
        description="The messages stay.",
        success="The subscription was deleted.",
        errors=(
            "subscription_not_found",
            "queue_full",
            "topic_not_found",
        ),
    ),
    _get(
        name="listSubscriptions",
        decided_by=DecidedBy.ANSWER,
        path=SUBSCRIPTIONS,
        handler=list_subscriptions,
        summary="List a topic's subscriptions",
        description=(
            "They are listed by name. One of kind `shared` is a group: it has no position, and "
            "`after` is where it began."
        ),
        success="The subscriptions.",
        answer=SUBSCRIPTIONS_CONTENT,
        errors=("topic_not_found",),
    ),
    _row(
        name="advanceSubscription",
        method="POST",
        path=f"{SUBSCRIPTION}/advance",
        handler=advance,
        summary="Move a subscription's position",
        description=(
            "The position moves forwards or backwards, from the version that the consumer knows: "
            "if two "
            "consumers share a name by mistake, one of them gets `subscription_moved`. To move it "
            "together with published messages, move it with the commit of a transaction."
        ),
        request=MOVE_CONTENT,
        success="The subscription with its new position.",
        answer=SUBSCRIPTION_CONTENT,
        errors=(
            "subscription_not_found",
            "subscription_is_shared",
            "subscription_moved",
            "topic_not_found",
            *_POSITION_ERRORS,
        ),
    ),
)
