"""A commit, repeated until its outcome is certain, or reported as unknown. Nothing is guessed.

An answer may be lost before or after the commit was carried out. Then the client asks the server
for the transaction's state: if it is committed, that is success; if it is in progress, the commit
is sent again; any other end is a refusal. Only after a refusal may the participants be rolled back.
"""

from tms.client.remote.retry import repeat, was_not_done
from tms.core.errors import (
    Conflict,
    OutcomeUnknown,
    RequestError,
    SubscriptionNotFound,
    TmsError,
    TopicNotFound,
    TransactionNotInProgress,
)
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import AsyncTransactions, TransactionStatus

COMMIT_S = 10.0
"""How long to try the commit of a transaction that began elsewhere."""
_OPEN = (TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING)


class Commit:
    """One transaction's commit, in as many attempts as it takes."""

    def __init__(
        self,
        transactions: AsyncTransactions,
        transaction_id: int,
        request: CommitRequest,
    ) -> None:
        """Send nothing yet."""
        self._transactions = transactions
        self._id = transaction_id
        self._request = request
        self._may_be_done = False

    async def finish(self, for_s: float) -> None:
        """Commit; ask for the outcome and repeat for up to `for_s` seconds.

        May be called again after it was cancelled. Raises `OutcomeUnknown`, which names the
        transaction, if an attempt may have been carried out and the server stays unavailable. Any
        other error, except a cancellation, is a refusal: it is not committed.
        """
        try:
            await repeat(self._attempt, when=self._goes_on, for_s=for_s)
        except Exception as error:
            if self._is_refusal(error):
                raise
            raise OutcomeUnknown(transaction_id=self._id, reason=str(error)) from error

    def _is_refusal(self, error: BaseException) -> bool:
        """Whether `error` guarantees that no attempt has committed, and none will."""
        if self._may_be_done:
            return isinstance(error, Conflict | SubscriptionNotFound | TopicNotFound)
        return isinstance(error, RequestError) or was_not_done(error)

    def _goes_on(self, error: BaseException) -> bool:
        # Any other error means that this process cannot continue: the client was closed.
        return isinstance(error, TmsError) and not isinstance(error, RequestError)

    async def _attempt(self) -> None:
        if self._may_be_done and await self._is_committed():
            return
        try:
            await self._transactions.commit(self._id, self._request)
        except TransactionNotInProgress:
            # An earlier attempt may have arrived since the server was asked.
            if not (self._may_be_done and await self._is_committed()):
                raise
        except BaseException as error:
            self._may_be_done |= not self._is_refusal(error)
            raise

    async def _is_committed(self) -> bool:
        """Ask the server. Raises `TransactionNotInProgress` if it has ended without a commit."""
        status = (await self._transactions.info(self._id)).status
        if status is TransactionStatus.COMMITTED:
            return True
        if status not in _OPEN:
            raise TransactionNotInProgress(transaction_id=self._id, status=str(status))
        return False
