"""What has become of an entry's transaction, as all readers see it. Pure.

For what looks at many entries and must not take away what a transaction in progress still needs.
"""

from collections.abc import Callable
from enum import Enum

from tms.core.entries import PLAIN
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.transactions.pruning import InvalidList


class Fate(Enum):
    """What readers do at an entry."""

    SEEN = "seen"
    """All are given it."""
    ROLLED_BACK = "rolled back"
    """Only readers without a transaction are given it."""
    UNDECIDED = "undecided"
    """A reader may stop there, or not see it, and another one sees it."""
    UNKNOWN = "unknown"
    """None stops there. Some see it, or none does."""


def ended_up_to(listed: InvalidList | None, limits: Limits, now_ms: int) -> int:
    """Return a pointer up to which nothing is written any more.

    Where transactions are managed elsewhere, `listed` is None, and the age of a pointer says so.
    """
    if listed is not None:
        return listed.ended_up_to
    writable_s = limits.transaction_lifetime_s_max + limits.cleanup_grace_s
    return (now_ms - writable_s * MS_PER_S + 1) * WRITE_POINTERS_PER_MS - 1


class Fates:
    """The fates of write pointers, by an invalid list that was asked for before rows are read."""

    def __init__(self, listed: InvalidList | None, limits: Limits, now_ms: int) -> None:
        """Decide by `listed`; None: transactions are managed elsewhere.

        Then only the age of a pointer says that it is in progress no more.
        """
        self._invalids = frozenset(() if listed is None else listed.since)
        self._seen_by_all = frozenset(() if listed is None else listed.seen_by_all())
        self._visible_up_to = None if listed is None else listed.visible_up_to
        self._ended_up_to = ended_up_to(listed, limits, now_ms)

    def of(self, pointer: int) -> Fate:
        """Return the fate of an entry with a stored `pointer`."""
        if pointer == PLAIN:
            return Fate.SEEN
        if pointer < PLAIN:
            return Fate.ROLLED_BACK
        if self._visible_up_to is None:
            return Fate.UNKNOWN if pointer <= self._ended_up_to else Fate.UNDECIDED
        if pointer in self._invalids:
            return Fate.UNKNOWN if pointer in self._seen_by_all else Fate.UNDECIDED
        return Fate.SEEN if pointer <= self._visible_up_to else Fate.UNDECIDED


FatesNow = Callable[[], Fates]
"""Gives the fates when they are needed: they cost a question to the services."""
