"""The messages that a member holds, against a scripted server."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

import tms
from tests.client.told_server import Held, Server, held_by, taken
from tests.virtual_loop import VIRTUAL
from tests.waiting import passes, turns, until
from tms.client.groups.async_group_message import AsyncGroupMessage
from tms.client.groups.take_settings import member_name
from tms.core.values.group_settings import Order
from tms.core.values.groups import (
    Refusal,
    RefusedMessage,
)

__all__ = ["held_by"]

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


async def test_what_comes_again_before_its_nack_is_answered_is_given(held_by: Held) -> None:
    server = Server(taken(1, 7))
    held = held_by(server, prefetch=1)
    first = await held.next()
    server.may_settle = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.nack, 0)
        await anyio.lowlevel.checkpoint()
        held._hold(taken(2, 7))  # taken in the meantime
        server.may_settle.set()

    again = await held.next()
    assert (again.id, again.delivery) == (first.id, 2)


async def test_settles_go_together(held_by: Held) -> None:
    server = Server(taken(1, *range(5)))
    held = held_by(server)
    messages = [await held.next() for _ in range(5)]
    server.may_settle = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for message in messages:
            tasks.start_soon(message.ack)
        await turns(20)
        server.may_settle.set()

    assert [len(settle.acks) for settle in server.settles] == [5]


async def test_a_repeated_ack_is_done_and_one_of_a_lost_lease_raises(held_by: Held) -> None:
    server = Server(taken(1, 1, 2))
    held = held_by(server)
    one, two = [await held.next() for _ in range(2)]
    server.refused = [
        RefusedMessage(1, one.id, Refusal.SETTLED),
        RefusedMessage(1, two.id, Refusal.LEASE_LOST),
    ]

    await one.ack()
    with pytest.raises(tms.LeaseLost, match="lease_lost"):
        await two.ack()
    with pytest.raises(tms.LeaseLost):
        await two.ack()


async def test_by_key_a_nack_takes_the_later_ones_of_its_key_out_of_the_buffer(
    held_by: Held,
) -> None:
    server = Server(taken(1, 1, 2, 3, key=b"k"), taken(2, 4, key=b"other"))
    held = held_by(server, Order.KEY)
    first = await held.next()
    await first.nack()

    assert (await held.next()).key == b"other"


async def test_by_key_a_commit_in_doubt_takes_the_later_ones_of_its_key_out_of_the_buffer(
    held_by: Held,
) -> None:
    """If the first was not committed, later ones would be worked on before its redelivery."""
    server = Server(taken(1, 1, 2, 3, key=b"k"), taken(2, 4, key=b"other"))
    held = held_by(server, Order.KEY)
    first = await held.next()
    first.in_doubt()

    assert (await held.next()).key == b"other"


async def test_what_has_waited_for_longer_than_its_lease_is_not_given(held_by: Held) -> None:
    server = Server(taken(1, 1, 2, lease_s=0.05), taken(2, 3))
    held = held_by(server, prefetch=2)
    assert (await held.next()).payload == b"1"
    held._held._deliveries[1].end_s = 0  # as if the process had been paused

    assert (await held.next()).payload == b"3"


async def test_all_that_is_held_is_extended_by_one_request(held_by: Held) -> None:
    server = Server(taken(1, 1, lease_s=0.09), taken(2, 2, lease_s=0.09), taken(3, 3, lease_s=0.09))
    held = held_by(server, prefetch=3)
    for _ in range(3):
        await held.next()
    await until(lambda: any(len(settle.extend or ()) == 3 for settle in server.settles))


async def test_the_end_gives_back_what_nobody_was_given(held_by: Held) -> None:
    server = Server(taken(1, 1, 2, 3))
    held = held_by(server)
    first = await held.next()
    await held.close()

    [settle] = server.settles
    assert [each.ids for each in settle.releases if first.id in (each.ids or ())] == []
    assert len(settle.releases) == 2


async def test_a_cancelled_body_gives_its_message_back_uncounted(held_by: Held) -> None:
    server = Server(taken(1, 1))
    held = held_by(server)
    with anyio.CancelScope() as scope:
        async with await held.next():
            scope.cancel()
            await passes(1)
    await held.close()

    assert [len(settle.releases) for settle in server.settles] == [1]


async def ack_at_the_end(message: AsyncGroupMessage) -> None:
    async with message:
        pass


async def nack_for_an_exception(message: AsyncGroupMessage) -> None:
    async with message:
        raise tms.Unavailable(reason="of the body")


async def nack(message: AsyncGroupMessage) -> None:
    await message.nack()


async def release(message: AsyncGroupMessage) -> None:
    await message.release()


async def roll_back(message: AsyncGroupMessage) -> None:
    await message.rolled_back(None)


async def have_it_in_doubt(message: AsyncGroupMessage) -> None:
    message.in_doubt()
    raise tms.Unavailable


@pytest.mark.parametrize(
    "end", [ack_at_the_end, nack_for_an_exception, nack, release, roll_back, have_it_in_doubt]
)
async def test_what_could_not_be_settled_is_extended_no_more(
    held_by: Held, end: Callable[[AsyncGroupMessage], Awaitable[None]]
) -> None:
    """Otherwise it would stay leased to this member for `hold_s_max` once the server is back."""
    server = Server(taken(1, 1, key=b"k", lease_s=0.09), taken(2, 2, key=b"k", lease_s=0.09))
    held = held_by(server, prefetch=1, one_of_a_key=True)
    message = await held.next()
    server.is_away = True
    with pytest.raises(tms.Unavailable):
        await end(message)

    server.settles.clear()
    await until(lambda: any(2 in (settle.extend or ()) for settle in server.settles))
    assert not any(1 in (settle.extend or ()) for settle in server.settles)


async def test_an_ack_that_had_no_answer_can_be_repeated(held_by: Held) -> None:
    server = Server(taken(1, 1))
    held = held_by(server)
    message = await held.next()
    server.is_away = True
    with pytest.raises(tms.Unavailable):
        await message.ack()
    server.is_away = False
    await message.ack()

    assert [len(settle.acks) for settle in server.settles] == [1]


@pytest.mark.parametrize("delay_s", [-1, float("nan"), 10**9])
def test_a_retry_has_a_delay_that_can_be(delay_s: float) -> None:
    with pytest.raises(tms.InvalidRequest, match="delay_s"):
        tms.Retry(delay_s=delay_s)


def test_names_of_members_are_valid_and_differ() -> None:
    assert len({member_name() for _ in range(100)}) == 100
    assert tms.core.values.groups.check_member(member_name())
