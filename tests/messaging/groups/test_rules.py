"""The rules of groups as stories; each story fails if its rule is switched off."""

from collections.abc import Callable

import pytest

from tests.messaging.groups.group_machine import MEMBERS, GroupMachine
from tests.messaging.groups.rules_off import (
    without_death,
    without_death_rate,
    without_expiry,
    without_floor,
    without_known_deliveries,
    without_late_acks,
    without_least_end,
    without_leaving,
    without_new_leases,
    without_one_end,
    without_refusal,
    without_release_behind,
    without_release_for_reopened,
    without_wait,
)
from tms.core.values.group_settings import Order
from tms.core.values.groups import (
    Acks,
    Nacks,
    Refusal,
    Settle,
)
from tms.messaging.groups.open_entries import Taker


class Story(GroupMachine):
    """The acts of the model, chosen by hand; its invariants are checked after each."""

    order: Order  # type: ignore[misc]  # each story gives it

    def __init__(self, order: Order = Order.NONE) -> None:
        super().__init__()
        self.order = order
        self.begin(member_max=1_000, attempts_max=2, dead_letters_max=2)

    def read(self, *keys: int) -> list[bytes]:
        self.publish(keys=list(keys))
        return list(self.commands.state.open)

    def lease(self, member: Taker, limit: int) -> int:
        before = len(self.given)
        self.take(keys=[], member=member, limit=limit, part=limit)
        assert len(self.given) == before + 1
        number, holder, ids = self.given[-1]
        assert (holder, len(ids)) == (member, limit)
        self.look()
        return number

    def end(self, member: Taker, settle: Settle) -> list[Refusal]:
        done = self.commands.settle(member, settle, self.now_ms)
        self.look()
        return [each.reason for each in done.refused]

    def look(self) -> None:
        self.settled = set(self.keys) - set(self.commands.state.open)
        self.state_is_the_fold_of_its_rows()
        self.one_holder_each_and_keys_in_order()


A, B, *_ = MEMBERS


def a_key_is_acknowledged_in_order() -> None:
    story = Story(Order.KEY)
    first, second = story.read(0, 0)
    number = story.lease(A, 2)
    assert story.end(A, Settle(acks=[Acks(number, [second])])) == [Refusal.EARLIER_OPEN]
    assert story.end(A, Settle(acks=[Acks(number, [second, first])])) == []


def only_the_newest_holder_counts() -> None:
    story = Story()
    [first] = story.read(0)
    number = story.lease(A, 1)
    story.pass_time(seconds=11)
    story.now_ms += 5_000
    newest = story.lease(B, 1)
    assert story.end(A, Settle(acks=[Acks(number, [first])])) == [Refusal.LEASE_LOST]
    assert story.end(B, Settle(acks=[Acks(newest)])) == []


def a_late_ack_counts_if_nobody_has_the_message() -> None:
    story = Story()
    [first] = story.read(0)
    number = story.lease(A, 1)
    story.pass_time(seconds=11)
    assert story.end(A, Settle(acks=[Acks(number, [first])])) == []


def what_is_behind_a_failure_goes_back() -> None:
    story = Story(Order.KEY)
    first, *_ = story.read(0, 0, 1)
    number = story.lease(A, 3)
    assert story.end(A, Settle(nacks=[Nacks(number, [first])])) == []
    assert story.commands.state.deliveries[number].held_count == 1
    story.now_ms += 5_000
    story.lease(B, 2)


def a_message_that_failed_is_given_when_its_wait_is_over() -> None:
    story = Story()
    story.read(0)
    number = story.lease(A, 1)
    story.end(A, Settle(nacks=[Nacks(number, delay_s=3)]))
    assert not story.commands.reserve(1, story.now_ms + 2_999).ids
    story.now_ms += 3_000
    story.lease(A, 1)


def acks_from_before_a_seek_are_refused() -> None:
    story = Story()
    [first] = story.read(0)
    number = story.lease(A, 1)
    story.commands.seek(None, story.now_ms)
    story.commands.read(first, [first], [], story.now_ms)
    assert story.end(A, Settle(acks=[Acks(number, [first])])) == [Refusal.LEASE_LOST]


def who_begins_anew_gives_back_what_it_had() -> None:
    story = Story(Order.KEY)
    story.read(0, 0)
    story.lease(A, 2)
    story.commands.release_all(A, story.now_ms)
    story.lease(B, 2)
    assert not any(each.attempts for each in story.commands.state.open.values())


def a_number_that_was_never_given_settles_nothing() -> None:
    story = Story()
    first, second = story.read(0, 0)
    number = story.lease(A, 1)
    assert story.end(A, Settle(acks=[Acks(number, [second])])) == [Refusal.LEASE_LOST]
    assert story.end(A, Settle(acks=[Acks(number - 5, [second])])) == [Refusal.LEASE_LOST]
    assert story.end(A, Settle(acks=[Acks(number, [first])])) == []


def a_late_ack_is_of_the_member_that_had_the_message_last() -> None:
    story = Story()
    [first] = story.read(0)
    number = story.lease(A, 1)
    story.pass_time(seconds=11)
    assert story.end(B, Settle(acks=[Acks(number, [first])])) == [Refusal.LEASE_LOST]
    assert story.end(A, Settle(acks=[Acks(number, [first])])) == []


def a_lease_that_was_shortened_and_lengthened_ends_once() -> None:
    story = Story()
    story.read(0, 0)
    story.lease(A, 1)
    story.lease(B, 1)
    story.end(A, Settle(extend=[], lease_s=2))
    story.end(A, Settle(extend=[], lease_s=5))
    story.pass_time(seconds=60)
    assert story.commands.state.deliveries == {}
    assert [each.attempts for each in story.commands.state.open.values()] == [1, 1]


def the_last_attempt_is_the_last() -> None:
    story = Story()
    [first] = story.read(0)
    for _ in range(2):
        number = story.lease(MEMBERS[0], 1)
        story.end(MEMBERS[0], Settle(nacks=[Nacks(number, delay_s=0)]))
    assert list(story.commands.state.dying) == [first]
    story.bury(1)
    assert not story.commands.state.open


def no_more_die_than_may() -> None:
    story = Story()
    story.read(0, 1, 2)
    number = story.lease(MEMBERS[0], 3)
    story.end(MEMBERS[0], Settle(nacks=[Nacks(number, dead=True)]))
    assert len(story.commands.state.dying) == 2
    assert story.commands.settings.paused


def a_redriven_message_is_the_first_of_its_key() -> None:
    story = Story(Order.KEY)
    first, second = story.read(0, 0)
    number = story.lease(MEMBERS[0], 1)
    story.end(MEMBERS[0], Settle(nacks=[Nacks(number, dead=True)]))
    story.bury(1)
    later = story.lease(MEMBERS[0], 1)
    story.commands.reopen(None, [], {first: story.keys[first]}, story.now_ms)
    story.look()
    assert not story.commands.state.has(later, second)


def an_extension_without_a_length_shortens_nothing() -> None:
    story = Story()
    story.read(0)
    story.lease(A, 1)
    story.end(A, Settle(extend=[], lease_s=3_600))
    story.end(A, Settle(extend=[]))
    story.pass_time(seconds=60)
    assert story.commands.state.leased == 1


def leases_start_again_after_a_standstill() -> None:
    story = Story()
    story.read(0)
    story.lease(A, 1)
    story.stand_still()
    assert story.commands.state.leased == 1


def what_has_expired_is_settled_but_for_what_somebody_has() -> None:
    story = Story()
    first, second, third = story.read(0, 0, 0)
    story.lease(A, 1)
    story.commands.expire(third, 9, story.now_ms)
    story.look()
    assert list(story.commands.state.open) == [first, third]
    assert second in story.settled


STORIES: dict[Callable[[], None], Callable[[pytest.MonkeyPatch], None]] = {
    a_key_is_acknowledged_in_order: without_refusal(Refusal.EARLIER_OPEN),
    only_the_newest_holder_counts: without_refusal(Refusal.LEASE_LOST),
    a_late_ack_counts_if_nobody_has_the_message: without_late_acks,
    what_is_behind_a_failure_goes_back: without_release_behind,
    a_message_that_failed_is_given_when_its_wait_is_over: without_wait,
    acks_from_before_a_seek_are_refused: without_floor,
    who_begins_anew_gives_back_what_it_had: without_leaving,
    a_number_that_was_never_given_settles_nothing: without_known_deliveries,
    a_late_ack_is_of_the_member_that_had_the_message_last: without_known_deliveries,
    a_lease_that_was_shortened_and_lengthened_ends_once: without_one_end,
    an_extension_without_a_length_shortens_nothing: without_least_end,
    leases_start_again_after_a_standstill: without_new_leases,
    what_has_expired_is_settled_but_for_what_somebody_has: without_expiry,
    the_last_attempt_is_the_last: without_death,
    no_more_die_than_may: without_death_rate,
    a_redriven_message_is_the_first_of_its_key: without_release_for_reopened,
}


@pytest.mark.parametrize("story", STORIES)
def test_the_rule_holds(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("story", STORIES)
def test_the_story_fails_without_the_rule(
    story: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    STORIES[story](monkeypatch)
    with pytest.raises((AssertionError, LookupError, ValueError)):
        story()
