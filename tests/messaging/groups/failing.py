"""Dead letters in tests: their topic, and messages that fail."""

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, number
from tests.waiting import until
from tms.core.values.groups import Nacks
from tms.core.values.message import Message
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

DEAD = TopicId(TOPIC.namespace, f"{TOPIC.name}--dead")


async def letters(world: World, topic_id: TopicId = DEAD) -> list[Message]:
    """Return all messages of the topic with the dead letters."""
    poll = world.services.messaging.poll(topic_id, Reading(b"\0" * 20))
    return [message async for block in poll for message in block]


async def has(world: World, count: int, topic_id: TopicId = DEAD) -> list[Message]:
    """Wait until there are this many dead letters."""

    async def are_there() -> bool:
        return len(await letters(world, topic_id)) >= count

    await until(are_there)
    found = await letters(world, topic_id)
    assert len(found) == count
    return found


async def with_dead_letters(world: World, **changes: object) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"attempts_max": 2, "retry_s": 0, **changes})


async def fail(world: World, member: str = "a", messages: int = 1, **more: object) -> None:
    taken = await world.take(member, messages)
    nacks = Nacks(number(taken), **more)  # type: ignore[arg-type]
    assert not await world.settle(member, nacks=[nacks])
