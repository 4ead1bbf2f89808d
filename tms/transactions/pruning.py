"""The invalid list as cleanup needs it, to invert entries and to remove pointers.

An entry of an invalid transaction may be inverted, as if it had been rolled back, when no snapshot
in progress is older than the transaction's end: a reader with an older snapshot stops at the entry,
and would then continue past it. Pure.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tms.transactions.commands import TransactionState


@dataclass(frozen=True, slots=True)
class InvalidList:
    """The invalid list at one moment, all of it durable."""

    since: Mapping[int, int]
    """By write pointer, ascending: the last one assigned when its transaction became invalid."""
    first_in_progress: int
    """The oldest transaction in progress; above all others if there is none."""
    last_write_pointer: int
    """Transactions that start from now on have greater ones."""
    visible_up_to: int
    """All transactions, present and future, see the commits up to this pointer."""
    knows_publications_after: int
    """This process knows the publications under greater pointers."""
    in_progress: AbstractSet[int] = frozenset()
    """All write pointers of transactions in progress, including checkpoints."""
    keys_from_ms: Mapping[int, int] = field(default_factory=dict)
    """By write pointer: the earliest time of its entries. 0 for a missing pointer."""

    def searched_from_ms(self, pointers: Iterable[int]) -> int:
        """Return the time from which on a topic may have entries under `pointers`, in ms."""
        return min((self.keys_from_ms.get(pointer, 0) for pointer in pointers), default=0)

    def seen_by_all(self, after: int = 0) -> set[int]:
        """Return the pointers above `after` that all snapshots in progress have as invalid."""
        return {p for p in self.since if p > after and self.is_seen_by_all(p)}

    def is_seen_by_all(self, pointer: int) -> bool:
        """Whether all snapshots in progress have a pointer of the list as invalid."""
        return self.since[pointer] < self.first_in_progress

    @property
    def ended_up_to(self) -> int:
        """The greatest pointer such that nothing up to it can still become invalid."""
        return min(self.first_in_progress - 1, self.last_write_pointer)


def invalid_list(state: TransactionState, knows_publications_after: int) -> InvalidList:
    """Return the invalid list of a durable state."""
    return InvalidList(
        state.invalids.since(),
        state.opened.first,
        state.last_write_pointer,
        min((o.visibility_upper_bound for o in state.opened), default=state.last_write_pointer),
        knows_publications_after,
        frozenset(state.opened.by_pointer),
        state.invalids.keys_from_ms(),
    )
