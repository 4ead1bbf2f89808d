"""Checks that a caller may do the other work of a commit."""

from api.http.exchange import Exchange
from tms.core.services.commits import NOTHING, CommitRequest
from tms.security.resources import Action


async def touch_carried(exchange: Exchange, request: CommitRequest) -> None:
    """Check the caller's rights to the topics and subscriptions that a commit's other work names.

    Raises `NotPermitted`, `TopicNotFound`.
    """
    if request is NOTHING:
        return
    moved, acks = request.advances, request.acks
    await exchange.touches(
        Action.SUBSCRIBE, [each.topic_id for each in moved], [each.name for each in moved]
    )
    await exchange.touches(Action.TAKE, [ack.topic_id for ack in acks], [ack.name for ack in acks])
    await exchange.touches(Action.PUBLISH, [each.topic_id for each in request.publish])
