"""All transactions of a server, for those who look after it, as threads use them."""

from collections.abc import Collection, Sequence

from tms.client.bridge import Bridge
from tms.client.commit_outcome import Commit
from tms.core.commits import CommitRequest, Stored
from tms.core.owners import OWNERS_LISTED, OwnerInfo
from tms.core.subscriptions import Advance
from tms.core.transaction import Transaction
from tms.core.transactions import (
    AsyncTransactions,
    StartRequest,
    TransactionInfo,
    TransactionStatus,
)

COMMIT_S = 10.0


class Transactions:
    """The transactions of a server or store, whoever began them. Made by `Client.transactions`.

    Each method may raise `Unavailable`, `InternalError` and `TransactionsElsewhere`; what takes an
    id, `TransactionUnknown`, `TransactionNotInProgress`, and `NotPermitted` if the transaction is
    another principal's. A program that works in a transaction itself has `Client.transaction`.
    """

    def __init__(self, transactions: AsyncTransactions, bridge: Bridge) -> None:
        """Stand on `transactions`, called through `bridge`."""
        self._transactions = transactions
        self._bridge = bridge

    def start(self, request: StartRequest) -> Transaction:
        """Start a transaction that other programs will use and end.

        Raises `TransactionDuplicate`, `OwnerBusy`, `TooManyTransactions`, `InvalidRequest`
        (invalid_timeout, invalid_owner), `NotPermitted` if the owner is another principal's.
        """
        return self._bridge.call(lambda: self._transactions.start(request))

    def commit(
        self,
        transaction_id: int,
        advances: Sequence[Advance] = (),
        publish: Sequence[Stored] = (),
    ) -> None:
        """Commit one that `start` started, and move subscriptions with it.

        What was stored under the write pointers of `publish`, by any program, is published in that
        order. If the answer is lost, the client asks what became of it, as in `Client.transaction`.
        Raises `TransactionConflict`, `TransactionDuplicate`, `OwnerElsewhere`, `SubscriptionMoved`,
        `PublicationRefused`, `OutcomeUnknown`.
        """
        request = CommitRequest(advances, publish)
        commit = Commit(self._transactions, transaction_id, request)
        self._bridge.call(lambda: commit.finish(COMMIT_S))

    def checkpoint(self, transaction_id: int) -> Transaction:
        """Return one in progress with a new write pointer, which is one of its own from now on.

        Raises `TooLarge` (too_many_checkpoints).
        """
        return self._bridge.call(lambda: self._transactions.checkpoint(transaction_id))

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return where a transaction stands, also one that ended of late."""
        return self._bridge.call(lambda: self._transactions.info(transaction_id))

    def transaction(self, transaction_id: int) -> Transaction:
        """Return the snapshot of a transaction in progress."""
        return self._bridge.call(lambda: self._transactions.transaction(transaction_id))

    def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        return self._bridge.call(self._transactions.in_progress)

    def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        return self._bridge.call(lambda: self._transactions.invalid(limit))

    def invalid_count(self) -> int:
        """Return how many write pointers are in the invalid list."""
        return self._bridge.call(self._transactions.invalid_count)

    def abort(self, transaction_id: int) -> TransactionStatus:
        """End one whose writes have all been undone; return what it is now.

        That is INVALID where not all it published was rolled back, or it is long.
        """
        return self._bridge.call(lambda: self._transactions.abort(transaction_id))

    def invalidate(self, transaction_id: int) -> None:
        """End one whose writes could not be undone: readers skip them."""
        self._bridge.call(lambda: self._transactions.invalidate(transaction_id))

    def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the invalid list; return how many were on it.

        Only once nothing written under them is left: it would become visible.
        """
        return self._bridge.call(lambda: self._transactions.truncate_invalid_ids(ids))

    def truncate_invalid_before(self, time_ms: int) -> int:
        """Take those off that started before a time, in ms since 1970; return how many.

        Only once nothing written under them is left. Raises `InvalidTruncateTime` where one that
        started before is in progress.
        """
        return self._bridge.call(lambda: self._transactions.truncate_invalid_before(time_ms))

    def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners whose last sequence is remembered, oldest commit first.

        At most `limit`, and 10,000; with a `principal`, those that are its own.
        """
        return self._bridge.call(lambda: self._transactions.owners(limit, principal=principal))

    def forget_owner(self, owner: str) -> None:
        """Forget an owner: its sequences may be committed again, and anybody may use it.

        Raises `OwnerNotFound`, `OwnerBusy` if a transaction of it is open, `NotPermitted` if it is
        another principal's, `OutcomeUnknown`.
        """
        self._bridge.call(lambda: self._transactions.forget_owner(owner))

    def snapshot(self) -> bytes:
        """Return the whole state, which Tephra reads as its own."""
        return self._bridge.call(self._transactions.snapshot)
