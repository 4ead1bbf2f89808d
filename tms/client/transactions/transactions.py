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
    """Starts and ends transactions. Each method may also raise `Unavailable` and `InternalError`.

    Changes are durable on return. Methods that take the id of a transaction raise
    `TransactionNotInProgress` if it has ended, with its `status` in the detail, and
    `TransactionUnknown` if it never existed or ended too long ago.

    A transaction belongs to the principal that started it. Methods that take the id of one raise
    `NotPermitted` (transaction_of_another) if you are another principal that may not end any
    transaction. A program that works in a transaction itself has `Client.transaction`.
    """

    def __init__(self, transactions: AsyncTransactions, bridge: Bridge) -> None:
        """Use `transactions`, called through `bridge`."""
        self._transactions = transactions
        self._bridge = bridge

    def start(self, request: StartRequest) -> Transaction:
        """Start a transaction.

        Raises `TransactionDuplicate` if the sequence is already committed, `OwnerElsewhere` if
        another origin committed it, `OwnerBusy`, `InvalidRequest` (invalid_timeout, invalid_owner),
        `TooManyTransactions`, `NotPermitted` (transaction_of_another) if the owner is another
        principal's, `RateExceeded` (principal_rate_exceeded), `TooLarge` (too_many_owners).
        """
        return self._bridge.call(self._transactions.start, request)

    def transaction(self, transaction_id: int) -> Transaction:
        """Return the snapshot of a transaction in progress, as from `start` or `checkpoint`."""
        return self._bridge.call(self._transactions.transaction, transaction_id)

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return the state of a transaction, even of one that ended recently.

        A client that lost the answer to a commit uses it. Everybody may see how a transaction
        committed or aborted. Raises `TransactionUnknown`, `NotPermitted` only.
        """
        return self._bridge.call(self._transactions.info, transaction_id)

    def can_commit(self, transaction_id: int, changes: Collection[bytes]) -> None:
        """Announce the changes of a transaction before they are persisted.

        Raises `TransactionConflict` if another that committed in the meantime changed one of the
        keys, and `TooLarge` (too_many_changes).
        """
        self._bridge.call(self._transactions.can_commit, transaction_id, changes)

    def commit(self, transaction_id: int, request: CommitRequest = NOTHING) -> None:
        """Make all its writes visible at once, and do the rest of the request.

        Stored messages that the request does not name stay unreachable. Raises
        `TransactionConflict`, `TransactionDuplicate`, `OwnerElsewhere`, `SubscriptionMoved`,
        `SubscriptionNotFound`, `TopicNotFound`, `PublicationRefused`, `TooLarge`
        (too_many_topics_at_once); then it is still in progress, and should be aborted.

        If the answer is lost, the client asks for the outcome, as in `Client.transaction`, and
        raises `OutcomeUnknown` if no server answers.
        """
        commit = Commit(self._transactions, transaction_id, request)
        self._bridge.call(commit.finish, COMMIT_S)

    def abort(self, transaction_id: int) -> TransactionStatus:
        """End it after all its writes were undone, and return its status.

        The status is ABORTED, or INVALID if not all it published was rolled back or if it is long;
        readers skip what remains.
        """
        return self._bridge.call(self._transactions.abort, transaction_id)

    def invalidate(self, transaction_id: int) -> None:
        """End it although its writes could not be undone, or nobody can undo them."""
        self._bridge.call(self._transactions.invalidate, transaction_id)

    def checkpoint(self, transaction_id: int) -> Transaction:
        """Return it with a new write pointer, which separates later writes from earlier ones.

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
        """Remove write pointers from the invalid list; return how many were on it.

        Only after everything written under them is gone, because it would become visible.
        """
        return self._bridge.call(self._transactions.truncate_invalid_ids, ids)

    def truncate_invalid_before(self, time_ms: int) -> int:
        """Remove those that started before a time from the invalid list; return how many.

        Raises `InvalidTruncateTime` if one that started earlier is in progress.
        """
        return self._bridge.call(self._transactions.truncate_invalid_before, time_ms)

    def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return at most `limit` remembered owners, the oldest commit first.

        At most `OWNERS_LISTED_MAX` are listed. With a `principal`, only its own.
        """
        return self._bridge.call(self._transactions.owners, limit, principal=principal)

    def forget_owner(self, owner: str) -> None:
        """Forget an owner: its sequences may be committed again, and anybody may use it.

        Raises `OwnerNotFound`, `OwnerBusy` if a transaction of it is open, `NotPermitted`
        (transaction_of_another).
        """
        self._bridge.call(self._transactions.forget_owner, owner)

    def snapshot(self) -> bytes:
        """Return the whole state, as `docs/formats.md` describes it; Tephra can read it."""
        return self._bridge.call(self._transactions.snapshot)
