"""The work of a settle grows with the messages it names, not with others open or leased."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.work import lines_of
from tms.core.errors import InvalidRequest
from tms.core.values.group_settings import OPEN_MAX, GroupSettings, Order
from tms.core.values.groups import (
    SETTLED_IDS_MAX,
    Acks,
    CommitAcks,
    Nacks,
    Releases,
    Settle,
)
from tms.core.values.message import MessageId
from tms.core.values.topic import TopicId
from tms.messaging.groups.checks import check_commit_acks, check_settle
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.state import OpenMessages

T = 1_700_000_000_000
A = Taker("a", None)
ID = MessageId(T, 0).encode()
LEASED = 100
Held = Sequence[tuple[int, Sequence[bytes]]]


def lines_of_settle(order: Order, count: int, takes: Iterator[int], asked: Any) -> int:
    """Return the lines run by a settle, in a group with open messages of one key."""
    settings = GroupSettings(order=order, open_max=count, member_max=count)
    commands = GroupCommands(OpenMessages(by_key=order is Order.KEY), settings, T)
    ids = [MessageId(T, sequence).encode() for sequence in range(count)]
    commands.read(ids[-1], ids, [bytes(8)] * count if order is Order.KEY else (), T)
    held = []
    for size in takes:
        taken = commands.reserve(size, T)
        number = commands.lease(taken, taken.ids, A, lease_ms=9_000, sequence=None, now_ms=T)
        held.append((number, taken.ids))
    settle = asked(held)
    return lines_of(lambda: commands.settle(A, settle, T))


def nacks(held: Held) -> Settle:
    return Settle(nacks=[Nacks(n, [each]) for n, ids in held for each in reversed(ids)])


def releases(held: Held) -> Settle:
    return Settle(releases=[Releases(n, [each]) for n, ids in held for each in reversed(ids)])


@pytest.mark.parametrize("asked", [nacks, releases])
def test_parts_of_one_key_last_first(asked: Callable[[Held], Settle]) -> None:
    few, many = (
        lines_of_settle(Order.KEY, count, iter([LEASED]), asked) for count in (2_000, 4_000)
    )
    assert few == many


class ComparedId(bytes):
    """An id whose comparisons run lines of Python, so that they are counted."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        return bytes.__eq__(self, other)


def lines_of_skip(count: int) -> int:
    """Return the lines run if the last half of a key's messages is skipped."""
    settings = GroupSettings(order=Order.KEY)
    commands = GroupCommands(OpenMessages(by_key=True), settings, T)
    ids = [ComparedId(MessageId(T, sequence).encode()) for sequence in range(count)]
    commands.read(ids[-1], ids, [bytes(8)] * count, T)
    return lines_of(lambda: commands.skip(ids[count // 2 :], T))


def test_messages_of_one_key_skipped_at_once() -> None:
    assert lines_of_skip(1_000) < 3 * lines_of_skip(500)


def test_one_delivery_named_many_times() -> None:
    once, often = (
        lines_of_settle(
            Order.NONE,
            1_000,
            iter([1_000]),
            lambda held, times=times: Settle(acks=[Acks(held[0][0])] * times + [Acks(1, [])]),
        )
        for times in (1, 100)
    )
    assert often < 2 * once


def test_ids_of_one_settle_have_a_bound() -> None:
    half = [ID] * (SETTLED_IDS_MAX // 2)
    check_settle(Settle(acks=[Acks(1, half)], nacks=[Nacks(1, half)]))
    with pytest.raises(InvalidRequest) as refused:
        check_settle(Settle([Acks(1, half)], [Nacks(1, half)], [Releases(1, [ID])]))
    assert refused.value.detail["most"] == SETTLED_IDS_MAX


def test_ids_of_one_commit_have_a_bound() -> None:
    acks = CommitAcks(TopicId("ns", "t"), "g", "a", 1, [ID] * (OPEN_MAX // 2))
    check_commit_acks([acks, acks])
    with pytest.raises(InvalidRequest) as refused:
        check_commit_acks([acks, acks, CommitAcks(acks.topic_id, "g", "a", 1, [ID])])
    assert refused.value.detail["most"] == OPEN_MAX
