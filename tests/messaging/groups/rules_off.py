"""The rules of groups switched off one by one, for tests that must fail then."""

from collections.abc import Callable

import pytest

from tms.core.values.groups import Refusal
from tms.messaging.groups import acks, commands, death_rate, edits, state
from tms.messaging.groups.open_entries import Taker


def without_refusal(reason: Refusal) -> Callable[[pytest.MonkeyPatch], None]:
    def switch_off(patch: pytest.MonkeyPatch) -> None:
        refusal = acks.AckCheck._refusal

        def lenient(self: acks.AckCheck, each: bytes, *given: object) -> Refusal | None:
            found = refusal(self, each, *given)  # type: ignore[arg-type]
            return None if found is reason and each in self.state.open else found

        patch.setattr(acks.AckCheck, "_refusal", lenient)

    return switch_off


def without_release_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "_behind", lambda _, ids: (list(ids), []))


def without_wait(patch: pytest.MonkeyPatch) -> None:
    """A waiting message whose turn comes too early is lost for ever."""
    make_due = state.OpenMessages.make_due
    patch.setattr(state.OpenMessages, "make_due", lambda self, _: make_due(self, 0))


def without_late_acks(patch: pytest.MonkeyPatch) -> None:
    refusal = acks.AckCheck._refusal

    def strict(self: acks.AckCheck, each: bytes, number: int, member: Taker) -> Refusal | None:
        if number not in self.state.deliveries:
            return Refusal.LEASE_LOST
        return refusal(self, each, number, member)

    patch.setattr(acks.AckCheck, "_refusal", strict)


def without_floor(patch: pytest.MonkeyPatch) -> None:
    seek = commands.GroupCommands.seek

    def without(self: commands.GroupCommands, through: bytes | None, now_ms: int) -> None:
        seek(self, through, now_ms)
        self.state.floor = 0

    patch.setattr(commands.GroupCommands, "seek", without)


def without_known_deliveries(patch: pytest.MonkeyPatch) -> None:
    """An ack counts under any number if nobody has the message."""

    def lenient(self: acks.AckCheck, each: bytes, number: int, _: Taker) -> bool:
        return self.state.open[each].delivery in (0, number) and number > self.state.floor

    patch.setattr(acks.AckCheck, "_had", lenient)


def without_one_end(patch: pytest.MonkeyPatch) -> None:
    """Every entry in the list of lease ends counts, even one whose end was moved."""

    def next_ended(self: state.OpenMessages, now_ms: int) -> int | None:
        ends = [each for each in self._ends if each[0] <= now_ms]
        for each in ends:
            self._ends.remove(each)
        return ends[0][1] if ends else None

    patch.setattr(state.OpenMessages, "next_ended", next_ended)


def without_least_end(patch: pytest.MonkeyPatch) -> None:
    """An extension without a length shortens a lease that is longer than the group's."""
    extend = state.OpenMessages.extend

    def short(self: state.OpenMessages, number: int, end_ms: int) -> None:
        extend(self, number, min(end_ms, self.deliveries[number].end_ms - 1))

    patch.setattr(state.OpenMessages, "extend", short)


def without_new_leases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "restart_leases", lambda *_: None)


def without_expiry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "expire", lambda *_: False)


def without_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "release_all", lambda *_: None)


def without_death(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "_die", lambda _, failed, *__, **___: list(failed))


def without_death_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(death_rate.DeathRate, "take", lambda *_: True)


def without_release_for_reopened(patch: pytest.MonkeyPatch) -> None:
    """Leased messages of a reopened message's key stay leased, though they are not the first."""
    apply = state.OpenMessages.apply

    def keeping(self: state.OpenMessages, edit: edits.Edit, now_ms: int) -> None:
        if not isinstance(edit, edits.ReleasedEdit):
            apply(self, edit, now_ms)

    patch.setattr(state.OpenMessages, "apply", keeping)
