"""Two topics, and the messages that their readers get."""

from tests.waiting import until
from tms.core.errors import StoreUnavailable
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices

NOW_MS = 1_800_000_000_000
A, B = TopicId("default", "a"), TopicId("default", "b")
SHORT = StartRequest()


async def polled(
    services: OpenServices, topic_id: TopicId, *, transaction: int | None = None, wait_s: float = 0
) -> list[bytes]:
    """Return the payloads that a transaction sees, or, without one, a committed reader."""
    view = Isolation.COMMITTED if transaction is None else transaction
    blocks = services.messaging.poll(topic_id, Reading(FIRST_ID, view=view), wait_s)
    return [message.payload async for block in blocks for message in block]


async def everything(services: OpenServices, topic_id: TopicId) -> list[bytes]:
    blocks = services.messaging.poll(topic_id, Reading(FIRST_ID))
    return [message.payload async for block in blocks for message in block]


def is_waited_for(services: OpenServices, topic_id: TopicId) -> bool:
    """Return whether a reader waits for a change of a topic."""
    state = services.messaging._states.loaded(topic_id)
    return state is not None and bool(state._waiters)


async def recovered(services: OpenServices) -> None:
    """Return once requests of transactions are accepted again."""

    async def are_taken() -> bool:
        try:
            await services.transactions.in_progress()
        except StoreUnavailable:
            return False
        return True

    await until(are_taken)


async def published(
    services: OpenServices, topic_id: TopicId, payload: bytes, pointer: int
) -> RollbackRange:
    found = (await services.messaging.publish(topic_id, [payload], pointer)).rollback_range
    assert found is not None
    return found
