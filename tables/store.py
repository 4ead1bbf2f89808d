"""The Store: an ordered map of bytes to bytes, per named table. The interface under all tables.

Every implementation guarantees this, and `tests/contracts/store_contract.py` checks it:

1. A `write` is durable when it returns, unless the store's settings say otherwise, and atomic if
   `atomic` is true.
2. A `write` or `compare_and_put` that raises `OutcomeUnknown` may or may not have happened; this is
   decided before any later write succeeds. A call that raises another error has changed nothing,
   and never will.
3. A `scan` returns keys ascending as bytes (descending in reverse). If `atomic` is true it sees one
   state of the table. Otherwise each row is as it was at some moment of the scan. An ascending scan
   that returns a row has still not missed a smaller one put earlier.
4. All methods may be called from several threads at once. A batch belongs to one thread at a time.
5. After `close` every call raises `StoreUnavailable`.
6. A batch made before a write failed is refused once that write's outcome is decided. So between
   making a batch and writing it, no failed write has turned out to have succeeded.
7. A batch is carried out in its order: at any moment, and after any crash, a row of it exists only
   if all rows added before it to the same table and topic do. A row of the Metadata, Transaction or
   Bound table, or a deletion, is carried out only after all operations added before it. So a failed
   batch that is not atomic may have carried out its first operations: add last the row by which
   readers find the others.
8. After a crash, a batch with `Batch.require_atomic` exists whole or not at all once a server has
   opened the store again.

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
"""The table of each feature that has one; it exists once the feature is recorded."""
ALL_TABLES = (*TABLES, *dict.fromkeys(TABLES_OF_FEATURES.values()))
COORDINATION = "coordination"
"""The values of a local metadata store; only in stores that one process has."""

Row = tuple[bytes, bytes]


class Store(Protocol):
    """An ordered map of bytes to bytes, per named table."""

    @property
    def atomic(self) -> bool:
        """Whether batches are atomic."""
        ...

    @property
    def is_embedded(self) -> bool:
        """Whether the store is within this process, not in a server elsewhere."""
        ...

    @property
    def is_raised(self) -> bool:
        """Whether the present format is recorded; if not, `tables.raising` says what differs."""
        ...

    @property
    def exchanges(self) -> int | None:
        """The number of begun and of ended calls of `compare_and_put`, summed.

        Nothing else changes the Metadata table of a store in use, except cleanup, which deletes
        rows. So while the number stays the same, the other rows read after it do too. None if
        another process may change them.
        """
        ...

    @property
    def reads_at_once(self) -> int:
        """The number of reads that may wait for the store at a time, each in a thread."""
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

        Leave the context soon: it keeps a state of the table alive, and `close` waits for it.
        """
        ...

    def batch(self, *, durable: bool = True) -> Batch:
        """Return an empty batch for this store; may raise as `check_writable` does.

        A batch that is not `durable` may be lost in a crash of the machine, until a durable one has
        been written after it.
        """
        ...

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` if a write would be refused now. Does not touch the disk."""
        ...

    def is_behind(self) -> bool:
        """Whether a large write would now wait, for seconds, until the store has merged files."""
        ...

    def check_unanswered(self, table: str, keys: Sequence[bytes]) -> None:
        """Raise `StoreUnavailable` if an earlier write of one of the keys may still take effect.

        A batch that writes it would fail, and hold up all others. Does not touch the disk.
        """
        ...

    def write(self, batch: Batch) -> None:
        """Carry out the puts and deletes of a batch of this store, in their order.

        Raises `OutcomeUnknown`; `StoreUnavailable` if nothing was done.
        """
        ...

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put a value durably if the key's present value is `expected`.

        If `expected` is None, the key must be absent. If `value` is None, the row is deleted.
        Return whether it was done. Raises as `write` does.
        """
        ...

    def compact(self, table: str, start: bytes, stop: bytes) -> None:
        """Free the room of deleted rows with start <= key < stop. May take long."""
        ...

    def size_bytes(self, table: str, start: bytes, stop: bytes) -> int:
        """Return the approximate size of the rows with start <= key < stop; 0 if in memory."""
        ...

    def raise_format(self) -> None:
        """Rename properties (`tables.raising`) and record the present format, unless `is_raised`.

        Older versions refuse the store from then on. After an interruption, call it again.
        Raises as `write` does.
        """
        ...

    def features(self) -> frozenset[str]:
        """Return the recorded features (`tms.core.values.store_features`). May read the store."""
        ...

    def add_feature(self, feature: str) -> None:
        """Create the table of a feature, if it has one, and record the feature, both durably.

        Versions that do not know it refuse the store from then on. Repeatable, wherever it was
        interrupted. Raises as `write` does; then the feature may be recorded or not.
        """
        ...

    def close(self) -> None:
        """Wait for calls in progress, then close. Closing twice is not an error."""
        ...


def tables_with(features: Collection[str]) -> Sequence[str]:
    """Return the tables that a store with these features has."""
    tables = [table for each, table in TABLES_OF_FEATURES.items() if each in features]
    return (*TABLES, *dict.fromkeys(tables))
