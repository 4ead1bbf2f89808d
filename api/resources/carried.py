"""Checks that a caller may do the other work of a commit, and counts what the caller publishes."""

from collections.abc import Sequence

from api.http.exchange import Exchange
from tms.core.services.commits import NOTHING, CommitRequest
from tms.security.resources import Action


def take_publish(exchange: Exchange, payloads: Sequence[bytes]) -> None:
    """Count messages among those that the caller publishes. Raises `RateExceeded`."""
    if exchange.use is not None:
        exchange.use.take_publish(len(payloads), sum(map(len, payloads)))


async def touch_carried(exchange: Exchange, request: CommitRequest) -> None:
    """Check the caller's rights to the topics and subscriptions that a commit's other work names.

    Raises `NotPermitted`, `TopicNotFound`, `RateExceeded`.
    """
    if request is NOTHING:
        return
    moved, acks = request.advances, request.acks
    await exchange.touches(
        Action.SUBSCRIBE, [each.topic_id for each in moved], [each.name for each in moved]
    )
    await exchange.touches(
        Action.TAKE, [each.topic_id for each in acks], [each.name for each in acks]
    )
    scheduled = [each.topic_id for each in request.schedule]
    published = [each.topic_id for each in request.publish]
    await exchange.touches(Action.PUBLISH, [*published, *scheduled])
    for schedule in request.schedule:
        take_publish(exchange, schedule.payloads)
