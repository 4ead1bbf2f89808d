"""The leases of the messages that a member holds: extended in time, one per key, given back."""

import asyncio
from decimal import Decimal
from typing import Any

import anyio
import pytest

import tms
from tests.client.told_server import Held, Server, held_by, taken
from tests.virtual_loop import VIRTUAL
from tests.waiting import passes, turns, until
from tms.client.groups.async_group_message import AsyncGroupMessage
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


def extensions(server: Server) -> list[int]:
    return [number for settle in server.settles for number in settle.extend or ()]


def returned(server: Server) -> set[bytes]:
    found: set[bytes] = set()
    for settle in server.settles:
        for each in settle.nacks:
            found.update(each.ids or ())
        for other in settle.releases:
            found.update(other.ids or ())
    return found


async def test_by_key_a_key_is_busy_until_the_work_on_it_is_done(held_by: Held) -> None:
    """Also if the lease is lost in the meantime, and the next message of the key has arrived."""
    server = Server(taken(1, 1, key=b"k", lease_s=9), taken(2, 1, key=b"k"), taken(3, 2))
    held = held_by(server, Order.KEY, prefetch=1, one_of_a_key=True)
    lost = await held.next()
    server.refused = [RefusedMessage(1, None, Refusal.LEASE_LOST)]
    await until(lambda: lost.settling.name == "LOST")
    server.refused = []

    coming = asyncio.create_task(held.next())
    await passes(1)
    assert not coming.done()
    held.worked(lost)
    again = await coming
    assert (again.id, again.delivery) == (lost.id, 2)
    held.worked(lost)  # the key now belongs to another message
    coming = asyncio.create_task(held.next())
    await passes(1)
    assert (await coming).delivery == 3
    held._hold(taken(4, 3, key=b"k"))
    coming = asyncio.create_task(held.next())
    await passes(1)
    assert not coming.done()
    held.worked(again)
    assert (await coming).delivery == 4


async def test_a_shorter_lease_than_the_others_is_extended_in_time(held_by: Held) -> None:
    server = Server(taken(1, 1, lease_s=3600))
    held = held_by(server, prefetch=2)
    await held.next()
    await passes(1)
    held._hold(taken(2, 2, lease_s=9))
    await held.next()
    await passes(4)
    assert 2 in extensions(server)


async def test_the_lease_that_the_server_answers_is_obeyed(held_by: Held) -> None:
    """The server shortens a lease while its message is worked on."""
    server = Server(taken(1, 1, lease_s=60))
    server.extends_by_s = 6
    held = held_by(server, prefetch=1)
    await held.next()
    await passes(20.5)
    assert extensions(server) == [1]
    await passes(6)
    assert extensions(server) == [1] * 4


async def test_a_message_that_is_held_for_too_long_leaves_the_others_of_its_take(
    held_by: Held,
) -> None:
    server = Server(taken(1, 1, 2, lease_s=30))
    held = held_by(server, prefetch=2, hold_s_max=100)
    first = await held.next()
    await passes(95)
    second = await held.next()
    await passes(40)

    assert returned(server) == {first.id}
    server.settles.clear()
    await passes(11)
    assert extensions(server) == [1]
    await second.ack()


async def test_what_is_taken_ahead_of_a_program_that_pauses_is_given_back(
    held_by: Held,
) -> None:
    server = Server(*(taken(number, number, lease_s=30) for number in range(1, 6)))
    held = held_by(server, prefetch=3, hold_s_max=100)
    first = await held.next()
    await until(lambda: len(held._buffer) > 1)
    ahead = set(held._buffer)
    await passes(200)

    assert returned(server) == {first.id, *ahead}
    server.settles.clear()
    await passes(100)
    assert extensions(server) == []


async def test_a_nack_that_had_no_answer_goes_with_the_next_extension(held_by: Held) -> None:
    """Otherwise it would stay leased as long as other messages of its take are held."""
    server = Server(taken(1, 1, 2, lease_s=30))
    held = held_by(server, prefetch=2)
    first, _second = await held.next(), await held.next()
    server.is_away = True
    with pytest.raises(tms.Unavailable):
        await first.nack(7, "why")
    server.is_away = False
    await passes(11)

    [nack] = [each for settle in server.settles for each in settle.nacks]
    assert (nack.ids, nack.delay_s, nack.reason) == ([first.id], 7, "why")


async def test_more_deliveries_than_one_request_may_have_are_extended(held_by: Held) -> None:
    server = Server(*(taken(number, number, lease_s=30) for number in range(1, 1502)))
    held = held_by(server, prefetch=1)
    for _ in range(1500):
        await held.next()
    server.settles.clear()
    await passes(11)
    assert max(len(settle.extend or ()) for settle in server.settles) <= 1000
    assert set(extensions(server)) >= set(range(1, 1501))


async def test_a_block_whose_lease_is_lost_raises_at_its_end(held_by: Held) -> None:
    server = Server(taken(1, 1, lease_s=9), taken(2, 2))
    held = held_by(server, prefetch=1)
    message = await held.next()

    async def work() -> None:
        async with message:
            server.refused = [RefusedMessage(1, None, Refusal.LEASE_LOST)]
            await until(lambda: message.settling.name == "LOST")

    with pytest.raises(tms.LeaseLost):
        await work()
    with pytest.raises(ZeroDivisionError):  # the body's own error comes first
        async with message:
            raise ZeroDivisionError


async def test_what_a_body_awaited_may_be_cancelled_and_nacks(held_by: Held) -> None:
    """If giving it back were not counted, it would be redelivered at once, for ever."""
    server = Server(taken(1, 1))
    held = held_by(server)

    async def work() -> None:
        async with await held.next():
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await work()
    assert [len(settle.nacks) for settle in server.settles] == [1]


async def test_an_ack_that_is_cancelled_at_the_end_of_a_block_is_given_up(held_by: Held) -> None:
    server = Server(taken(1, 1, 2, lease_s=9))
    held = held_by(server)
    message, _other = await held.next(), await held.next()
    server.may_settle = anyio.Event()
    with anyio.move_on_after(1):
        async with message:
            pass
    server.may_settle.set()
    await passes(4)
    assert returned(server) == {message.id}


@pytest.mark.parametrize(
    "bad", [{"delay_s": Decimal(5)}, {"delay_s": "5"}, {"reason": None}, {"reason": b"why"}]
)
async def test_what_cannot_be_sent_is_refused_at_the_call(held_by: Held, bad: Any) -> None:
    """Otherwise acks of others would go in the same request, and fail with it."""
    server = Server(taken(1, 1, 2))
    held = held_by(server)
    message, other = await held.next(), await held.next()
    refused: list[Exception] = []

    async def nack(message: AsyncGroupMessage) -> None:
        try:
            await message.nack(**bad)
        except TypeError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nack, message)
        tasks.start_soon(other.ack)
        await turns(5)
    assert len(refused) == 1
    assert [(len(each.acks), len(each.nacks)) for each in server.settles] == [(1, 0)]
    with pytest.raises(TypeError):
        tms.Retry(**bad)


@pytest.mark.parametrize("bad", [{"prefetch": -1}, {"prefetch": 1001}, {"lease_s": 0}])
async def test_settings_that_the_server_would_refuse_are_refused_first(
    held_by: Held, bad: Any
) -> None:
    with pytest.raises(tms.InvalidRequest):
        held_by(Server(), **bad)


async def test_without_prefetch_one_is_taken_for_each_that_is_asked_for(held_by: Held) -> None:
    server = Server(taken(1, 1), taken(2, 2), taken(3, 3))
    held = held_by(server, prefetch=0)
    assert (await held.next()).delivery == 1
    await passes(1)
    assert len(server.takes) == 2
    asking = [asyncio.create_task(held.next()) for _ in range(2)]
    await passes(1)
    assert not server.takes
    assert {(await each).delivery for each in asking} == {2, 3}
    assert not held._buffer
