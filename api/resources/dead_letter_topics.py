"""Checks that a caller may make a group write dead letters to a topic."""

from api.http.exchange import Exchange
from tms.core.errors import TopicNotFound
from tms.core.values.dead_letters import default_topic
from tms.core.values.topic import TopicId
from tms.security.resources import Action, topic_resource


async def check_may_name(exchange: Exchange, attempts_max: int, dead_letter: str) -> None:
    """Raise `NotPermitted` if the caller may not make a group write dead letters to a topic.

    They copy payloads of the group's topic there, so the caller needs the right to publish there,
    and to consume or take here. To create the default topic, it also needs the right to manage it.
    """
    topic_id = exchange.topic_id
    if not (attempts_max or dead_letter):
        return
    here = topic_resource(topic_id.namespace, topic_id.name)
    if not exchange.may(Action.TAKE, here, exchange.subscription):
        exchange.check_access(Action.CONSUME, here)
    dead = TopicId(topic_id.namespace, dead_letter) if dead_letter else default_topic(topic_id)
    resource = topic_resource(dead.namespace, dead.name)
    exchange.check_access(Action.PUBLISH, resource)
    if not dead_letter:
        try:
            await exchange.context.services.messaging.topic(dead)
        except TopicNotFound:
            exchange.check_access(Action.MANAGE, resource)
