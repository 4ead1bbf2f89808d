"""Operations that write, and whose next step fails: no answer says that nothing was done."""

from typing import Any

import pytest

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, number, payloads
from tms.core.errors import NoLeader, OutcomeUnknown, StoreUnavailable
from tms.core.values.groups import Acks, SeekTo, Settle
from tms.messaging.groups.service import GroupService

pytestmark = pytest.mark.anyio


class Lost:
    """A lease that has expired."""

    def check(self) -> None:
        raise NoLeader


async def test_a_take_reports_what_it_settled_even_if_it_gets_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(b"1", b"2")
    settle = Settle(acks=[Acks(number(await world.take()))])
    groups = world.services.groups
    assert isinstance(groups, GroupService)
    monkeypatch.setattr(groups._engine, "lease", Lost())
    with pytest.raises(NoLeader):
        await world.take()
    taken = await world.take(settle=settle)
    assert (taken.delivery, taken.settled.settled) == (None, 1)
    with pytest.raises(NoLeader):  # nothing was done
        await world.take(settle=settle)
    monkeypatch.undo()
    assert payloads(await world.take()) == [b"2"]


async def test_a_change_of_a_group_that_cannot_be_read_has_an_unknown_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.publish(b"1")
    await world.take()
    groups = world.services.groups

    async def read(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(groups, "_read", read)
        with pytest.raises(OutcomeUnknown):
            await groups.set_group(TOPIC, "g", {"lease_s": 77})
        with pytest.raises(OutcomeUnknown):
            await groups.seek(TOPIC, "g", SeekTo.START)
    shown = await groups.group(TOPIC, "g")
    assert (shown.settings.lease_s, shown.state.open) == (77, 0)
