"""The invalid list: write pointers whose entries no reader is to see, and whose they were."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tms.core.transaction import TransactionType


@dataclass(frozen=True, slots=True, eq=False)
class Invalid:
    """An invalid transaction."""

    id: int
    type: TransactionType
    since: int
    """The last write pointer given out when it became invalid."""
    client: str
    owner: str | None
    sequence: int | None
    checkpoints: tuple[int, ...]
    principal: str | None = None
    """The principal that began it; None if that is not known."""
    keys_from_ms: int = 0
    """No entry under its pointers has an earlier time; 0: of a version that did not record it."""

    @property
    def pointers(self) -> tuple[int, ...]:
        """All it may have written under, ascending."""
        return (self.id, *self.checkpoints)


class Invalids:
    """All that are invalid, by each of their write pointers."""

    def __init__(self) -> None:
        self.by_pointer: dict[int, Invalid] = {}
        self.changed_at = 0
        """The last write pointer given out when the list changed last."""
        self._ascending: list[int] = []
        self._tuple: tuple[int, ...] | None = ()

    @property
    def ascending(self) -> tuple[int, ...]:
        """All pointers, ascending: the same tuple until the list changes."""
        if self._tuple is None:
            self._tuple = tuple(self._ascending)
        return self._tuple

    def add(self, invalid: Invalid, pointers: Iterable[int]) -> None:
        """Add `pointers`, which are some of the transaction's."""
        for pointer in pointers:
            self.by_pointer[pointer] = invalid
            insort(self._ascending, pointer)
        self._changed(invalid.since)

    def load(self, by_pointer: Mapping[int, Invalid]) -> None:
        """Take pointers, ascending, with whose they are, where none are on the list yet."""
        self.by_pointer.update(by_pointer)
        self._ascending = list(by_pointer)
        self._changed(max((invalid.since for invalid in by_pointer.values()), default=0))

    def remove(self, pointers: Iterable[int], changed_at: int) -> dict[int, Invalid]:
        """Take off those of `pointers` that are on the list, and return them."""
        removed = {
            pointer: self.by_pointer.pop(pointer)
            for pointer in pointers
            if pointer in self.by_pointer
        }
        if len(removed) == 1:
            [pointer] = removed
            del self._ascending[bisect_left(self._ascending, pointer)]
        elif removed:
            self._ascending = [p for p in self._ascending if p not in removed]
        if removed:
            self._changed(changed_at)
        return removed

    def _changed(self, changed_at: int) -> None:
        self.changed_at = changed_at
        self._tuple = None
