"""Who may do what a commit carries."""

from api.http.exchange import Exchange
from tms.core.services.commits import NOTHING, CommitRequest
from tms.security.resources import Action


async def touch_carried(exchange: Exchange, request: CommitRequest) -> None:
    """Tell the door of the topics and subscriptions that a commit's other work names.

    Raises `NotPermitted`, `TopicNotFound`.
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
    await exchange.touches(Action.PUBLISH, [each.topic_id for each in request.publish])
