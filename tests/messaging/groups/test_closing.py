"""Takes while the groups close: deliveries are written, so that their acks count afterwards."""

import asyncio

import pytest

from tests.messaging.groups.conftest import World, number
from tests.waiting import turns
from tms.core.errors import Stopping
from tms.core.values.groups import Acks, Taken
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("after", range(12))
async def test_what_is_taken_while_the_groups_close_can_be_acknowledged(
    world: World, after: int
) -> None:
    await world.publish(*(b"%d" % each for each in range(12)))
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    assert (await world.take("first")).delivery is not None
    closing = asyncio.create_task(groups.close())
    await turns(after)
    answers = await asyncio.gather(
        *(world.take(f"m{each}") for each in range(3)), return_exceptions=True
    )
    await closing
    with pytest.raises(Stopping):
        await world.take("late")
    await world.again()
    for each, taken in enumerate(answers):
        if isinstance(taken, Taken):
            assert taken.delivery is not None
            assert await world.settle(f"m{each}", acks=[Acks(number(taken))]) == []
        else:
            assert isinstance(taken, Stopping)
