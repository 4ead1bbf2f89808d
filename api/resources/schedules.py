"""Messages that are published later: scheduled, listed and cancelled."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import limit_of, seconds_of, time_of, values_of
from api.http.request_body import read_body
from api.openapi.schedule_schemas import (
    SCHEDULE_QUERY,
    SCHEDULED_CONTENT,
    WAITING_CONTENT,
    WAITING_QUERY,
)
from api.openapi.schemas import SCHEDULE_CONTENT
from api.resources.carried import take_publish
from api.resources.messages import MESSAGE_ERRORS, SCHEDULE_ERRORS, SCHEMA_ERRORS, requested
from api.resources.paths import TOPIC
from tms.core.errors import InvalidRequest
from tms.core.values.schedules import LISTED_DEFAULT, DeliveryTime, place_of
from tms.security.resources import Action
from tms.wire import json_schedules as bodies

SCHEDULED = f"{TOPIC}/scheduled"


def _delivery_of(query: bytes) -> DeliveryTime:
    values = values_of(query)
    return DeliveryTime(time_of(values, "deliver_at"), seconds_of(values, "deliver_after"))


async def schedule(exchange: Exchange) -> None:
    """Schedule messages."""
    body = await read_body(exchange)
    delivery = _delivery_of(exchange.query)
    request, _ = await requested(exchange, body)
    if request.write_pointer is not None:
        raise InvalidRequest(
            "invalid_body", reason="messages in a transaction cannot be published later"
        )
    take_publish(exchange, request.payloads)
    scheduled = await exchange.context.services.schedules.schedule(
        exchange.topic_id, request.payloads, delivery, caller=exchange.caller
    )
    await exchange.answer(OK, bodies.encode_scheduled(scheduled), JSON_TYPE)


async def list_scheduled(exchange: Exchange) -> None:
    """Answer with messages that wait."""
    values = values_of(exchange.query)
    scheduled = await exchange.context.services.schedules.scheduled(
        exchange.topic_id, values.get("after"), limit_of(values) or LISTED_DEFAULT
    )
    await exchange.answer(OK, bodies.encode_waiting(scheduled), JSON_TYPE)


async def cancel(exchange: Exchange) -> None:
    """Cancel a message."""
    scheduled_id = place_of(exchange.names["scheduled_id"]).id
    exchange.about = f"scheduled message {scheduled_id}"
    await exchange.context.services.schedules.cancel_scheduled(
        exchange.topic_id, scheduled_id, caller=exchange.caller
    )
    await exchange.answer(OK)


_row = partial(Operation, tag="Messages")
OPERATIONS = (
    _row(
        name="schedule",
        action=Action.PUBLISH,
        method="POST",
        path=f"{TOPIC}/schedule",
        handler=schedule,
        summary="Publish messages later",
        description=(
            "The body is that of a publish without a transaction. When the server answers, the "
            "messages are durable. They are checked now, and published when they are due; only "
            "then do they get message ids. Messages that are due at the same time are published in "
            "the order in which they were scheduled. A time in the past means now."
        ),
        query=SCHEDULE_QUERY,
        request=SCHEDULE_CONTENT,
        success="The messages are scheduled. The `ids` are for cancelling them.",
        answer=SCHEDULED_CONTENT,
        errors=(
            "topic_not_found",
            "invalid_body",
            "id_as_number",
            "invalid_query",
            "invalid_write_pointer",
            *SCHEDULE_ERRORS,
            *MESSAGE_ERRORS,
            *SCHEMA_ERRORS,
        ),
    ),
    _row(
        name="listScheduled",
        action=Action.CONSUME,
        method="GET",
        path=SCHEDULED,
        handler=list_scheduled,
        summary="List the messages that will be published later",
        description="The first ones, by the times when they are due.",
        query=WAITING_QUERY,
        success="The messages. To continue, give the last `id` as `after`.",
        answer=WAITING_CONTENT,
        errors=("invalid_limit", "scheduled_not_found", "topic_not_found"),
    ),
    _row(
        name="cancelScheduled",
        is_always_audited=True,
        action=Action.PUBLISH,
        method="DELETE",
        path=f"{SCHEDULED}/{{scheduled_id}}",
        handler=cancel,
        summary="Cancel a scheduled message",
        description="A message is either cancelled or published, never both.",
        success="The message will not be published.",
        errors=("scheduled_not_found", "topic_not_found", "topic_of_the_service", "queue_full"),
    ),
)
