"""The core of groups with seeks at any moment, hot keys and long leases."""

import pytest

from tms.core.values.group_settings import GroupSettings, Order
from tms.core.values.groups import (
    Acks,
    CommitAcks,
    Refusal,
    RefusedMessage,
    Settle,
)
from tms.core.values.message import MessageId
from tms.core.values.topic import TopicId
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.open_entries import Reservation, Taker
from tms.messaging.groups.state import OpenMessages

T = 1_700_000_000_000
A = Taker("a", None)
TOPIC = TopicId("default", "orders")
IDS = [MessageId(T, sequence).encode() for sequence in range(500)]


def a_group(count: int, order: Order = Order.NONE) -> GroupCommands:
    """Return a group with open messages, which all have one key if it is ordered by key."""
    commands = GroupCommands(OpenMessages(by_key=order is Order.KEY), GroupSettings(order=order), T)
    read(commands, IDS[:count])
    return commands


def read(commands: GroupCommands, ids: list[bytes]) -> None:
    digests = [bytes(8)] * len(ids) if commands.state.by_key else []
    commands.read(ids[-1], ids, digests, T)


def lease(commands: GroupCommands, reserved: Reservation) -> int:
    return commands.lease(reserved, reserved.ids, A, lease_ms=40_000_000, sequence=None, now_ms=T)


@pytest.mark.parametrize("order", Order)
def test_a_reservation_from_before_a_seek_holds_nothing(order: Order) -> None:
    commands = a_group(3, order)
    commands.seek(None, T)
    read(commands, IDS[:3])
    before = commands.reserve(1, T)

    # Both in the same millisecond, with no delivery in between.
    commands.seek(None, T)
    read(commands, IDS[:3])

    assert commands.still_open(before) == []
    commands.give_up(before)
    assert list(commands.reserve(3, T).ids) == IDS[:3]


@pytest.mark.parametrize("order", Order)
def test_a_seek_between_two_reservations_of_one_take_keeps_nothing_back(order: Order) -> None:
    commands = a_group(3, order)
    before = commands.reserve(1, T)
    commands.seek(None, T)
    read(commands, IDS[:3])
    after = commands.reserve(2, T)

    both = commands.joined(before, after)

    assert list(both.ids) == list(after.ids)
    commands.give_up(both)
    assert list(commands.reserve(3, T).ids) == IDS[:3]


def test_many_messages_of_one_key_are_acknowledged_in_order() -> None:
    commands = a_group(500, Order.KEY)
    number = lease(commands, commands.reserve(400, T))

    settled = commands.settle(A, Settle(acks=[Acks(number, [*IDS[1:3], IDS[0], IDS[5]])]), T)

    assert (settled.settled, settled.refused) == (
        3,
        [RefusedMessage(number, IDS[5], Refusal.EARLIER_OPEN)],
    )
    assert commands.settle(A, Settle(acks=[Acks(number)]), T).settled == 397
    assert list(commands.reserve(500, T).ids) == IDS[400:]


def test_acks_of_a_commit_count_as_one_and_each_id_once() -> None:
    commands = a_group(3, Order.KEY)
    number = lease(commands, commands.reserve(3, T))

    def refusals(*ids: bytes) -> list[RefusedMessage]:
        acks = [CommitAcks(TOPIC, "g", A.name, number, [each]) for each in ids]
        return commands.refusals(acks, A.principal)

    assert refusals(IDS[1], IDS[0]) == []
    assert refusals(IDS[0], IDS[2]) == [RefusedMessage(number, IDS[2], Refusal.EARLIER_OPEN)]
    assert refusals(IDS[0], IDS[1], IDS[0]) == [RefusedMessage(number, IDS[0], Refusal.SETTLED)]


def test_the_ends_of_long_leases_do_not_pile_up() -> None:
    commands = a_group(500)
    kept = lease(commands, commands.reserve(1, T))
    for _ in range(499):
        number = lease(commands, commands.reserve(1, T))
        commands.settle(A, Settle(acks=[Acks(number)]), T)

    # The first message is still leased, so the ones behind it are not at the head.
    assert len(commands.state._ends) < 100
    commands.end_leases(T + 40_000_000)
    assert kept not in commands.state.deliveries


def test_a_repeat_is_found_among_many_deliveries() -> None:
    commands = a_group(20)
    numbers = {}
    for sequence in (1, 2, None, 4):
        reserved = commands.reserve(2, T)
        numbers[sequence] = commands.lease(
            reserved, reserved.ids, A, lease_ms=1000, sequence=sequence, now_ms=T
        )

    assert [commands.repeated(A, sequence) for sequence in (1, 2, 3, 4, 5, None)] == [
        numbers[1],
        numbers[2],
        None,
        numbers[4],
        None,
        None,
    ]
    assert commands.repeated(Taker(A.name, "another"), 4) is None
