"""The transactions in progress, by each of their write pointers.

New pointers ascend, so a dict in insertion order is sorted: Tephra's sorted map without the cost of
sorting.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from tms.core.limits import MS_PER_S
from tms.core.runtime.shares import Shares
from tms.core.services.transactions import TransactionStatus
from tms.core.values.transaction import NO_TX_IN_PROGRESS, TransactionType
from tms.transactions.change_sets import weight_of

_STALE_DEADLINES_MIN = 1_000


@dataclass(slots=True)
class Open:
    """A transaction in progress."""

    id: int
    type: TransactionType
    expires_ms: int
    timeout_s: int
    visibility_upper_bound: int
    read_pointer: int
    """The read pointer of its snapshot."""
    first_short: int
    """The oldest short transaction in progress in its snapshot."""
    client: str = ""
    owner: str | None = None
    sequence: int | None = None
    origin: str | None = None
    changes: tuple[bytes, ...] | None = None
    """The changes announced by can-commit; None if there was none."""
    checkpoints: list[int] = field(default_factory=list)
    principal: str | None = None
    """The principal that began it; None if unknown."""
    keys_from_ms: int = 0
    """The earliest time of its entries; 0 if a version that did not record it wrote it."""

    @property
    def status(self) -> TransactionStatus:
        """IN_PROGRESS or COMMITTING."""
        if self.changes is None:
            return TransactionStatus.IN_PROGRESS
        return TransactionStatus.COMMITTING

    def age_ms(self, now_ms: int) -> int:
        """Return its age at `now_ms`, by the clock of its timeout."""
        return max(0, now_ms + self.timeout_s * MS_PER_S - self.expires_ms)

    @property
    def pointers(self) -> tuple[int, ...]:
        """All pointers that it may have written under, ascending."""
        return (self.id, *self.checkpoints)


class InProgress:
    """All open transactions."""

    def __init__(self, shares: Shares, changes: Shares) -> None:
        """Count in `shares` the transactions, and in `changes` the bytes of announced changes."""
        self.by_pointer: dict[int, Open] = {}
        """The transactions by their ids and pointers of checkpoints, ascending."""
        self.by_owner: dict[str, Open] = {}
        self.shares = shares
        """The number of transactions of each principal, without checkpoints."""
        self._changes = changes
        # The first item of a dict is slow to find after many deletions before it.
        self._shorts: OrderedDict[int, None] = OrderedDict()
        self._longs: OrderedDict[int, None] = OrderedDict()
        self._deadlines: list[tuple[int, int]] = []

    @property
    def count(self) -> int:
        """The number of transactions, without checkpoints."""
        return self.shares.used

    @property
    def first_short(self) -> int:
        """The first pointer that is not a long transaction's id; NO_TX_IN_PROGRESS if none is."""
        return next(iter(self._shorts), NO_TX_IN_PROGRESS)

    @property
    def first(self) -> int:
        """The first pointer; NO_TX_IN_PROGRESS if there is none."""
        return min(self.first_short, next(iter(self._longs), NO_TX_IN_PROGRESS))

    @property
    def last(self) -> int:
        """The last pointer; 0 if there is none."""
        return next(reversed(self.by_pointer), 0)

    def __iter__(self) -> Iterator[Open]:
        """Yield the transactions, oldest first."""
        return (opened for pointer, opened in self.by_pointer.items() if opened.id == pointer)

    def add(self, opened: Open) -> None:
        """Add a transaction that has just started, without checkpoints."""
        self.by_pointer[opened.id] = opened
        by_type = self._longs if opened.type is TransactionType.LONG else self._shorts
        by_type[opened.id] = None
        if opened.owner is not None:
            self.by_owner[opened.owner] = opened
        self.shares.add(opened.principal)
        heappush(self._deadlines, (opened.expires_ms, opened.id))

    def add_checkpoint(self, opened: Open, pointer: int) -> None:
        """Add a pointer to a transaction; it counts as short in any case, as in Tephra."""
        opened.checkpoints.append(pointer)
        self.by_pointer[pointer] = opened
        self._shorts[pointer] = None

    def announce(self, opened: Open, changes: tuple[bytes, ...]) -> None:
        """Record the announced changes of a transaction; they replace earlier ones."""
        more = weight_of(changes) - weight_of(opened.changes or ())
        self._changes.add(opened.principal, more)
        opened.changes = changes

    def remove(self, transaction_id: int) -> Open:
        """Remove a transaction with its checkpoints. Raises `KeyError` if there is none."""
        opened = self.by_pointer[transaction_id]
        if opened.id != transaction_id:
            raise KeyError(transaction_id)
        del self.by_pointer[transaction_id]
        self.shares.add(opened.principal, -1)
        self._changes.add(opened.principal, -weight_of(opened.changes or ()))
        if opened.type is TransactionType.LONG:
            del self._longs[transaction_id]
        else:
            del self._shorts[transaction_id]
        for pointer in opened.checkpoints:
            del self.by_pointer[pointer], self._shorts[pointer]
        if opened.owner is not None:
            del self.by_owner[opened.owner]
        if len(self._deadlines) > 2 * self.count + _STALE_DEADLINES_MIN:
            self._set_deadlines()
        return opened

    def count_of(self, principal: str) -> int:
        """Return the number of transactions that a principal has in progress."""
        return self.shares.used_by(principal)

    def next_expiry_ms(self) -> int | None:
        """Return when the first transaction expires, None if none is in progress."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self.by_pointer:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expired(self, now_ms: int, limit: int) -> list[int]:
        """Return the ids of transactions that have timed out, at most `limit`, oldest first."""
        ids: list[int] = []
        at = [0]
        while at:
            index = at.pop()
            if index < len(self._deadlines) and self._deadlines[index][0] < now_ms:
                transaction_id = self._deadlines[index][1]
                if transaction_id in self.by_pointer:
                    ids.append(transaction_id)
                at += (2 * index + 1, 2 * index + 2)
        return sorted(ids)[:limit]

    def clamp_expiries(self, now_ms: int) -> None:
        """Let none expire later than its timeout from now, in case the clock was set back."""
        for opened in self:
            opened.expires_ms = min(opened.expires_ms, now_ms + opened.timeout_s * MS_PER_S)
        self._set_deadlines()

    def _set_deadlines(self) -> None:
        self._deadlines = [(opened.expires_ms, opened.id) for opened in self]
        heapify(self._deadlines)
