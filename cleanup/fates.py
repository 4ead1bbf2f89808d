"""The fates of entries by their transactions, as all readers see them. Pure.

For code that reads many entries and must not delete what a transaction in progress still needs.
"""

from collections.abc import Callable, Collection
from enum import Enum

from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.values.entries import PLAIN
from tms.transactions.pruning import InvalidList


class Fate(Enum):
    """The action of readers at an entry."""

    SEEN = "seen"
    """All readers get it."""
    ROLLED_BACK = "rolled back"
    """Only readers without a transaction get it."""
    UNDECIDED = "undecided"
    """Some readers see it; others stop there, or do not see it."""
    UNKNOWN = "unknown"
    """No reader stops there. Some may see it."""


def ended_up_to(listed: InvalidList | None, limits: Limits, now_ms: int) -> int:
    """Return a pointer up to which no transaction writes any more.

    `listed` is None if transactions are managed elsewhere; then the age of a pointer decides.
    """
    if listed is not None:
        return listed.ended_up_to
    writable_s = limits.transaction_lifetime_s_max + limits.cleanup_grace_s
    return (now_ms - writable_s * MS_PER_S + 1) * WRITE_POINTERS_PER_MS - 1


class Fates:
    """The fates of write pointers, by an invalid list read before the rows."""

    def __init__(self, listed: InvalidList | None, limits: Limits, now_ms: int) -> None:
        """Decide by `listed`, which is None if transactions are managed elsewhere.

        Then only the age of a pointer shows that it is no longer in progress.
        """
        self._listed = listed
        self._invalids: Collection[int] = () if listed is None else listed.since
        self.ended_up_to = ended_up_to(listed, limits, now_ms)

    def of(self, pointer: int) -> Fate:
        """Return the fate of an entry with a stored `pointer`."""
        if pointer == PLAIN:
            return Fate.SEEN
        if pointer < PLAIN:
            return Fate.ROLLED_BACK
        listed = self._listed
        if listed is None:
            return Fate.UNKNOWN if pointer <= self.ended_up_to else Fate.UNDECIDED
        if pointer in self._invalids:
            return Fate.UNKNOWN if listed.is_seen_by_all(pointer) else Fate.UNDECIDED
        return Fate.SEEN if pointer <= listed.visible_up_to else Fate.UNDECIDED

    @property
    def are_elsewhere(self) -> bool:
        """Whether transactions are managed elsewhere."""
        return self._listed is None

    def is_invalid(self, pointer: int) -> bool:
        """Whether a pointer is on the invalid list."""
        return pointer in self._invalids

    def settled(self, pointer: int) -> Fate:
        """Return the fate of an entry as soon as its own transaction has ended.

        It is SEEN if that was committed, although older transactions in progress do not see it, and
        UNKNOWN if it became invalid, although they may stop at it.
        """
        listed = self._listed
        if listed is None or pointer <= PLAIN:
            return self.of(pointer)
        if pointer in self._invalids:
            return Fate.UNKNOWN
        is_open = pointer in listed.in_progress or pointer > listed.last_write_pointer
        return Fate.UNDECIDED if is_open else Fate.SEEN

    def from_before(self) -> list[int]:
        """Return the pointers in progress whose stored messages this process may not know."""
        if self._listed is None:
            return []
        known_after = self._listed.knows_publications_after
        return sorted(pointer for pointer in self._listed.in_progress if pointer <= known_after)


FatesNow = Callable[[], Fates]
"""Returns the fates on demand, because they cost a call of the services."""
