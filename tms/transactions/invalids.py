"""The invalid list: write pointers whose entries no reader may see, and their transactions.

A pointer stays on the list for a day and an hour, so there may be many: each takes twelve bytes.
The pointers are in one ascending array, and the details of their transactions in a table of
distinct rows: transactions that one program let time out share one row. Few transactions have more
details: sequences, checkpoints, and an end, which is kept as long as an older one is in progress.

The arrays are returned without a copy, and copied before the next change, so those returned never
change.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

from tms.core.limits import WRITE_POINTERS_PER_MS
from tms.core.values.transaction import TransactionType

_SETTLE_MIN = 1_000
_DETAILS_MIN = 1_000


@dataclass(frozen=True, slots=True)
class Invalid:
    """An invalid transaction."""

    id: int
    type: TransactionType
    since: int
    """The last write pointer of all transactions when it became invalid. After `settle` has
    forgotten that, its own last pointer.
    """
    client: str
    owner: str | None
    sequence: int | None
    checkpoints: tuple[int, ...]
    principal: str | None = None
    """The principal that began it; None if unknown."""
    keys_from_ms: int = 0
    """The earliest time of its entries; 0 if a version that did not record it wrote it."""

    @property
    def pointers(self) -> tuple[int, ...]:
        """All it may have written under, ascending."""
        return (self.id, *self.checkpoints)


class _Details(NamedTuple):
    """The details that many invalid transactions share."""

    type: TransactionType
    client: str
    owner: str | None
    principal: str | None
    keys_after_ms: int | None
    """The least time of its entries minus the time of its id; None if it was not recorded."""


class Pointers(array):  # type: ignore[type-arg]  # not generic before Python 3.12
    """Write pointers in eight bytes each; equal to any sequence of the same numbers."""

    def __new__(cls, pointers: Iterable[int] = ()) -> Self:
        """Store some pointers."""
        return cast(Self, super().__new__(cls, "q", pointers))

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same numbers."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:  # type: ignore[override]
        """Return the hash of an equal tuple."""
        return hash(tuple(self))


class Column(Mapping[int, int]):
    """A number for each pointer on the list at one moment, ascending by pointer."""

    def __init__(self, pointers: Sequence[int], number: Callable[[int], int]) -> None:
        """Take the numbers from `number`, which gets the index of a pointer."""
        self._pointers, self._number = pointers, number

    def __getitem__(self, pointer: int) -> int:
        """Return the number of a pointer. Raises `KeyError`."""
        return self._number(_place(self._pointers, pointer))

    def __contains__(self, pointer: object) -> bool:
        """Whether a pointer was on the list."""
        return isinstance(pointer, int) and _holds(self._pointers, pointer)

    def __iter__(self) -> Iterator[int]:
        """Yield the pointers."""
        return iter(self._pointers)

    def __len__(self) -> int:
        """Return the number of pointers."""
        return len(self._pointers)


class Invalids(Mapping[int, Invalid]):
    """All invalid transactions, by each of their write pointers, ascending."""

    def __init__(self) -> None:
        self.changed_at = 0
        """The last write pointer assigned at the last change of the list."""
        self._pointers = Pointers()
        self._rows = array("I")
        """The row of each pointer in `_details`."""
        self._is_handed_out = False
        self._details: list[_Details] = []
        self._row_of: dict[_Details, int] = {}
        self._since: dict[int, int] = {}
        """`since` by pointer; all transactions in progress are newer than a missing one."""
        self._sequences: dict[int, int] = {}
        self._together: dict[int, tuple[int, ...]] = {}
        """The pointers of each transaction with more than one, by each of them."""
        self._settle_at = _SETTLE_MIN

    @property
    def ascending(self) -> Sequence[int]:
        """All pointers, ascending: the same array until the list changes."""
        self._is_handed_out = True
        return self._pointers

    def __len__(self) -> int:
        """Return the number of pointers."""
        return len(self._pointers)

    def __iter__(self) -> Iterator[int]:
        """Yield all pointers, ascending."""
        return iter(self.ascending)

    def __contains__(self, pointer: object) -> bool:
        """Whether a pointer is on the list."""
        return isinstance(pointer, int) and _holds(self._pointers, pointer)

    def __getitem__(self, pointer: int) -> Invalid:
        """Return the transaction of a pointer. Raises `KeyError`."""
        details = self._details[self._rows[_place(self._pointers, pointer)]]
        pointers = self._together.get(pointer, (pointer,))
        return Invalid(
            pointers[0],
            details.type,
            self._since.get(pointer, pointers[-1]),
            details.client,
            details.owner,
            self._sequences.get(pointer),
            pointers[1:],
            details.principal,
            _keys_from_ms(details, pointers[0]),
        )

    def transactions(self) -> Iterator[Invalid]:
        """Yield each transaction once, by the first of its pointers that is on the list."""
        yielded: set[int] = set()
        for pointer in self.ascending:
            together = self._together.get(pointer)
            if together is not None:
                if together[0] in yielded:
                    continue
                yielded.add(together[0])
            yield self[pointer]

    def since(self) -> Column:
        """Return the `since` of all pointers as it is now."""
        pointers, since, together = self.ascending, self._since.copy(), self._together.copy()

        def number(place: int) -> int:
            pointer = pointers[place]
            return since.get(pointer) or together.get(pointer, (pointer,))[-1]

        return Column(pointers, number)

    def keys_from_ms(self) -> Column:
        """Return the `keys_from_ms` of all pointers as it is now."""
        pointers, rows, details = self.ascending, self._rows, self._details
        together = self._together.copy()

        def number(place: int) -> int:
            pointer = pointers[place]
            return _keys_from_ms(details[rows[place]], together.get(pointer, (pointer,))[0])

        return Column(pointers, number)

    def add(self, invalid: Invalid, pointers: Iterable[int]) -> None:
        """Add some `pointers` of the transaction."""
        self._own_arrays()
        row = self._row(invalid)
        for pointer in pointers:
            place = bisect_left(self._pointers, pointer)
            self._pointers.insert(place, pointer)
            self._rows.insert(place, row)
            self._add_rest(pointer, invalid)
        self.changed_at = invalid.since

    def load(self, by_pointer: Mapping[int, Invalid]) -> None:
        """Fill the empty list with pointers, ascending, and their transactions."""
        self._own_arrays()
        for pointer, invalid in by_pointer.items():
            self._pointers.append(pointer)
            self._rows.append(self._row(invalid))
            self._add_rest(pointer, invalid)
            self.changed_at = max(self.changed_at, invalid.since)

    def remove(self, pointers: Iterable[int], changed_at: int) -> dict[int, Invalid]:
        """Remove the `pointers` that are on the list, and return them."""
        removed = {pointer: self[pointer] for pointer in pointers if pointer in self}
        if not removed:
            return removed
        if len(removed) == 1:
            self._own_arrays()
            place = _place(self._pointers, *removed)
            del self._pointers[place], self._rows[place]
        else:
            kept = [place for place, p in enumerate(self._pointers) if p not in removed]
            self._rows = array("I", (self._rows[place] for place in kept))
            self._pointers = Pointers(self._pointers[place] for place in kept)
            self._is_handed_out = False
        for pointer in removed:
            self._since.pop(pointer, None)
            self._sequences.pop(pointer, None)
            self._together.pop(pointer, None)
        self.changed_at = changed_at
        self._drop_details()
        return removed

    def settle_if_many(self, first_in_progress: int) -> None:
        """Call `settle` from time to time."""
        if len(self._since) > self._settle_at:
            self.settle(first_in_progress)
            self._settle_at = 2 * len(self._since) + _SETTLE_MIN

    def settle(self, first_in_progress: int) -> None:
        """Forget the ends of transactions that ended before all those in progress began.

        All present and future transactions have them on their lists, whatever the exact end.
        """
        self._since = {p: since for p, since in self._since.items() if since >= first_in_progress}

    def _row(self, invalid: Invalid) -> int:
        after_ms = None
        if invalid.keys_from_ms:
            after_ms = invalid.keys_from_ms - invalid.id // WRITE_POINTERS_PER_MS
        details = _Details(invalid.type, invalid.client, invalid.owner, invalid.principal, after_ms)
        row = self._row_of.get(details)
        if row is None:
            row = self._row_of[details] = len(self._details)
            self._details.append(details)
        return row

    def _add_rest(self, pointer: int, invalid: Invalid) -> None:
        if invalid.since > invalid.pointers[-1]:
            self._since[pointer] = invalid.since
        if invalid.sequence is not None:
            self._sequences[pointer] = invalid.sequence
        if invalid.checkpoints:
            self._together[pointer] = invalid.pointers

    def _own_arrays(self) -> None:
        """Copy the arrays if they were returned to a caller."""
        if self._is_handed_out:
            self._pointers, self._rows = Pointers(self._pointers), self._rows[:]
            self._is_handed_out = False

    def _drop_details(self) -> None:
        """Drop the rows that no pointer uses any more, if they are the majority."""
        if len(self._details) <= 2 * len(self._pointers) + _DETAILS_MIN:
            return
        used = sorted(set(self._rows))
        self._details = [self._details[row] for row in used]  # returned arrays never change
        self._row_of = {details: row for row, details in enumerate(self._details)}
        new = {row: place for place, row in enumerate(used)}
        self._rows = array("I", map(new.__getitem__, self._rows))


def _keys_from_ms(details: _Details, transaction_id: int) -> int:
    if details.keys_after_ms is None:
        return 0
    return transaction_id // WRITE_POINTERS_PER_MS + details.keys_after_ms


def _place(ascending: Sequence[int], pointer: int) -> int:
    place = bisect_left(ascending, pointer)
    if place == len(ascending) or ascending[place] != pointer:
        raise KeyError(pointer)
    return place


def _holds(ascending: Sequence[int], pointer: int) -> bool:
    place = bisect_left(ascending, pointer)
    return place < len(ascending) and ascending[place] == pointer
