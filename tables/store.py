"""The Store: an ordered map of bytes to bytes, per named table. The one seam under the tables.

Every implementation guarantees this, and `tests/contracts/store_contract.py` checks it:

1. A `write` is durable when it returns, as far as the store's settings say, and visible whole or
   not at all where `atomic` is true.
2. A `write` or `compare_and_put` that raises `OutcomeUnknown` may or may not have happened; which
   of the two is decided before any later write succeeds. A call that raises another error has
   changed nothing, and never will.
3. A `scan` gives keys ascending as bytes (descending in reverse). Where `atomic` is true it sees
   one state of the table. Elsewhere each row is as it was at some moment of the scan; one that is
   ascending still never misses a row before one that it gives, where both were put in this order.
4. All methods may be called from several threads at once. A batch belongs to one thread at a time.
5. After `close` every call raises `StoreUnavailable`.
6. A batch that was made before a write failed is refused after that was decided. So between making
   a batch and writing it, no failed write has turned out to have succeeded.
7. A batch is carried out in its order: at any moment, and after any crash, a row of it is there
   only with those that were added before it to the same table and topic; one of the Metadata,
   Transaction or Bound table, and a deletion, only with all that were added before. So where a
   batch is not atomic, a failed one may have left its first operations. So add last the row by
   which readers find the others.
8. A batch with `Batch.require_atomic` is, after a crash, there whole or not at all once a server
   has opened the store again.

`compare_and_put` is atomic against all other writes of its key made through the same store.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tms.core.values.batch import Batch
from tms.core.values.store_features import GROUPS, SCHEDULES

MESSAGE = "message"
PAYLOAD = "payload"
METADATA = "metadata"
SUBSCRIPTION = "subscription"
TRANSACTION = "transaction"
BOUND = "bound"
GROUP = "group"
TABLES = (MESSAGE, PAYLOAD, METADATA, SUBSCRIPTION, TRANSACTION, BOUND)
"""The tables of each store."""
TABLES_OF_FEATURES: Mapping[str, str] = {GROUPS: GROUP, SCHEDULES: GROUP}
"""The table of each feature that has one: there from when the feature is recorded."""
ALL_TABLES = (*TABLES, *dict.fromkeys(TABLES_OF_FEATURES.values()))
COORDINATION = "coordination"
"""The values of a metadata store of this machine: only where the store is one process's."""

Row = tuple[bytes, bytes]


class Store(Protocol):
    """An ordered map of bytes to bytes, per named table."""

    @property
    def atomic(self) -> bool:
        """Whether a batch is written whole or not at all."""
        ...

    @property
    def is_embedded(self) -> bool:
        """Whether it is this process's own, and not a server elsewhere."""
        ...

    @property
    def is_raised(self) -> bool:
        """Whether the present format is recorded; if not, `tables.raising` says what differs."""
        ...

    @property
    def exchanges(self) -> int | None:
        """How many writes of `compare_and_put` have begun, and have ended, in all.

        The Metadata table of a store that is served changes by nothing else, but for rows that
        cleanup deletes: as long as the number stays, so do the others that were read after it.
        None: another process may change them too.
        """
        ...

    @property
    def reads_at_once(self) -> int:
        """How many reads may wait for it at a time, each in a thread."""
        ...

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        ...

    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AbstractContextManager[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them.

        Leave the context soon: it holds a state of the table, and `close` waits for it.
        """
        ...

    def batch(self, *, durable: bool = True) -> Batch:
        """Return an empty batch for this store; where `check_writable` raises, so may this.

        One that need not be `durable` may be lost by a crash of the machine, until a durable one
        was written after it.
        """
        ...

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` where a write would be refused now. Touches no disk."""
        ...

    def is_behind(self) -> bool:
        """Whether a large write would now wait, for seconds, until the store has merged more."""
        ...

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Raise `StoreUnavailable` where an earlier write of one of the keys may come late.

        A batch that puts or deletes it would fail, and hold up all others. Touches no disk.
        """
        ...

    def write(self, batch: Batch) -> None:
        """Carry out the puts and deletes of a batch of this store, in their order.

        Raises `OutcomeUnknown`; `StoreUnavailable` where nothing is done.
        """
        ...

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put `value` (None: delete) if the key's value is `expected` (None: absent), durably.

        Return whether it was. Raises as `write`.
        """
        ...

    def compact(self, table: str, start: bytes, stop: bytes) -> None:
        """Give back the room of what was deleted with start <= key < stop. May take long."""
        ...

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:
        """Return about how much room the rows with start <= key < stop take; 0 if in memory."""
        ...

    def raise_format(self) -> None:
        """Rename properties (`tables.raising`) and record the present format, unless `is_raised`.

        Older versions refuse the store from then on. Repeatable, wherever it was broken off. Raises
        as `write`.
        """
        ...

    def features(self) -> frozenset[str]:
        """Return the features that are recorded now (`tms.core.values.store_features`). May ask."""
        ...

    def add_feature(self, feature: str) -> None:
        """Make the table of a feature, if it has one, and record it, both durably.

        Versions that do not know it refuse the store from then on. Repeatable, wherever it was
        broken off. Raises as `write`; then it may be recorded or not.
        """
        ...

    def close(self) -> None:
        """Wait for what is under way, then close. Closing twice is no error."""
        ...


def tables_with(features: Collection[str]) -> Sequence[str]:
    """Return the tables that a store with these features has."""
    found = [table for each, table in TABLES_OF_FEATURES.items() if each in features]
    return (*TABLES, *dict.fromkeys(found))
