"""The service's answers to extensions of leases."""

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World
from tms.core.values.groups import Settle

pytestmark = pytest.mark.anyio


async def test_an_extension_answers_the_lease(world: World) -> None:
    """A member has no other way to learn that the group's setting was changed."""
    groups = world.services.groups
    await world.publish(b"1")
    await world.take("a")
    await groups.set_group(TOPIC, "g", {"lease_s": 7})
    for lease_s, answered in ((None, 7), (50, 50)):
        settled = await groups.settle(TOPIC, "g", "a", Settle(extend=[], lease_s=lease_s))
        assert settled.lease_s == answered
    assert (await groups.settle(TOPIC, "g", "a", Settle())).lease_s is None
