"""`Transactions` for threads, made from `tms.core.services.transactions`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Collection

from tms.client.threads.bridge import Bridge
from tms.client.transactions.commit_outcome import COMMIT_S, Commit
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.transactions import (
    AsyncTransactions,
    StartRequest,
    TransactionInfo,
    TransactionStatus,
)
from tms.core.values.owners import OWNERS_LISTED, OwnerInfo
from tms.core.values.transaction import Transaction


class Transactions:
    """Starts and ends transactions. Each method may raise `Unavailable` and `InternalError` too.

    What changes something is durable when it returns. Methods that take the id of a transaction
    raise `TransactionNotInProgress` where it has ended, whose detail has its `status`, and
    `TransactionUnknown` where it never was, or ended too long ago.

    A transaction belongs to the principal that started it. Methods that take the id of one raise
    `NotPermitted` (transaction_of_another) if you are another principal, and may not end any. A
    program that works in a transaction itself has `Client.transaction`.
    """

    def __init__(self, transactions: AsyncTransactions, bridge: Bridge) -> None:
        """Stand on `transactions`, called through `bridge`."""
        self._transactions = transactions
        self._bridge = bridge

    def start(self, request: StartRequest) -> Transaction:
        """Start a transaction.

        Raises `TransactionDuplicate` where the sequence is committed already, `OwnerElsewhere`
        where that was by another origin, `OwnerBusy`, `InvalidRequest` (invalid_timeout,
        invalid_owner), `TooManyTransactions`, `NotPermitted` (transaction_of_another) if the owner
        is another principal's, `RateExceeded` (principal_rate_exceeded), `TooLarge`
        (too_many_owners).
        """
        return self._bridge.call(self._transactions.start, request)

    def transaction(self, transaction_id: int) -> Transaction:
        """Return the snapshot of a transaction in progress, as `start` or `checkpoint` did."""
        return self._bridge.call(self._transactions.transaction, transaction_id)

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return where a transaction stands, also one that ended of late.

        This is how a client that lost the answer to a commit learns of it. How one has ended that
        committed or aborted, everybody is told. Raises `TransactionUnknown`, `NotPermitted` only.
        """
        return self._bridge.call(self._transactions.info, transaction_id)

    def can_commit(self, transaction_id: int, changes: Collection[bytes]) -> None:
        """Announce what it changed, before it is made persistent.

        Raises `TransactionConflict` where another that committed meanwhile changed one of the same
        keys, and `TooLarge` (too_many_changes).
        """
        self._bridge.call(self._transactions.can_commit, transaction_id, changes)

    def commit(self, transaction_id: int, request: CommitRequest = NOTHING) -> None:
        """Make it visible as a whole, and with it do what is requested besides.

        What was stored and is not named there stays unreachable. Raises `TransactionConflict`,
        `TransactionDuplicate`, `OwnerElsewhere`, `SubscriptionMoved`, `SubscriptionNotFound`,
        `TopicNotFound`, `PublicationRefused`, `TooLarge` (too_many_topics_at_once); then it is
        still in progress, and should be aborted.

        If the answer is lost, the client asks for the outcome, as in `Client.transaction`, and
        raises `OutcomeUnknown` if no server answers.
        """
        commit = Commit(self._transactions, transaction_id, request)
        self._bridge.call(commit.finish, COMMIT_S)

    def abort(self, transaction_id: int) -> TransactionStatus:
        """End it; all that it wrote has been undone. Return what it is now.

        That is ABORTED, or INVALID where not all it published was rolled back, or it is long:
        readers skip what it left.
        """
        return self._bridge.call(self._transactions.abort, transaction_id)

    def invalidate(self, transaction_id: int) -> None:
        """End it where what it wrote could not be undone, or nobody is there who could."""
        self._bridge.call(self._transactions.invalidate, transaction_id)

    def checkpoint(self, transaction_id: int) -> Transaction:
        """Return it with a new write pointer: what was written before can be told from what comes.

        Raises `TooLarge` (too_many_checkpoints).
        """
        return self._bridge.call(self._transactions.checkpoint, transaction_id)

    def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        return self._bridge.call(self._transactions.in_progress)

    def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        return self._bridge.call(self._transactions.invalid, limit)

    def invalid_count(self) -> int:
        """Return how many write pointers are in the invalid list."""
        return self._bridge.call(self._transactions.invalid_count)

    def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the invalid list; return how many were on it.

        Only once nothing written under them is left: it would become visible.
        """
        return self._bridge.call(self._transactions.truncate_invalid_ids, ids)

    def truncate_invalid_before(self, time_ms: int) -> int:
        """Take those off the invalid list that started before a time; return how many.

        Raises `InvalidTruncateTime` where one that started before is in progress.
        """
        return self._bridge.call(self._transactions.truncate_invalid_before, time_ms)

    def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners that are remembered, at most `limit`, oldest commit first.

        More than `OWNERS_LISTED_MAX` are never listed. With a `principal`, those that are its own.
        """
        return self._bridge.call(self._transactions.owners, limit, principal=principal)

    def forget_owner(self, owner: str) -> None:
        """Forget an owner: its sequences may be committed again, and anybody may use it.

        Raises `OwnerNotFound`, `OwnerBusy` if a transaction of it is open, `NotPermitted`
        (transaction_of_another).
        """
        self._bridge.call(self._transactions.forget_owner, owner)

    def snapshot(self) -> bytes:
        """Return the whole state, as `docs/formats.md` describes it; Tephra reads it as its own."""
        return self._bridge.call(self._transactions.snapshot)
