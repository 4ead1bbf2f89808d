"""The rules of groups switched off one by one, for tests that must fail then."""

from collections.abc import Callable

import pytest

from tms.core.groups import Refusal
from tms.messaging.groups import commands, state


def without_refusal(reason: Refusal) -> Callable[[pytest.MonkeyPatch], None]:
    def switch_off(patch: pytest.MonkeyPatch) -> None:
        refusal = commands.GroupCommands._refusal

        def lenient(self: commands.GroupCommands, *given: object) -> Refusal | None:
            found = refusal(self, *given)  # type: ignore[arg-type]
            return None if found is reason and given[0] in self.state.open else found

        patch.setattr(commands.GroupCommands, "_refusal", lenient)

    return switch_off


def without_release_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "_behind", lambda _, ids: (list(ids), []))


def without_wait(patch: pytest.MonkeyPatch) -> None:
    """A message that waits, and whose turn comes too early, is lost for ever."""
    make_due = state.OpenMessages.make_due
    patch.setattr(state.OpenMessages, "make_due", lambda self, _: make_due(self, 0))


def without_late_acks(patch: pytest.MonkeyPatch) -> None:
    refusal = commands.GroupCommands._refusal

    def strict(
        self: commands.GroupCommands, each: bytes, number: int, *given: object
    ) -> Refusal | None:
        if number not in self.state.deliveries:
            return Refusal.LEASE_LOST
        return refusal(self, each, number, *given)  # type: ignore[arg-type]

    patch.setattr(commands.GroupCommands, "_refusal", strict)


def without_floor(patch: pytest.MonkeyPatch) -> None:
    seek = commands.GroupCommands.seek

    def without(self: commands.GroupCommands, through: bytes | None, now_ms: int) -> None:
        seek(self, through, now_ms)
        self.state.floor = 0

    patch.setattr(commands.GroupCommands, "seek", without)


def without_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commands.GroupCommands, "begin_anew", lambda *_: None)
