"""`TransactionContext` for threads, made from `tms.client.transactions.async_transaction`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tms.client.threads.bridge import Bridge
from tms.client.threads.callback_thread import CallingThread
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction_work import Gathered
from tms.core.values.transaction import Transaction


class TransactionContext:
    """One transaction, begun and ended by `with`. Made by `Client.transaction`.

    Transactional readers see the messages of `Topic.publish(…, tx)`, the participants' work, and
    the moves of subscriptions together, or never. Any thread may publish within it; only one at a
    time may begin it, end it, or call its other methods.
    """

    def __init__(self, context: AsyncTransactionContext, bridge: Bridge) -> None:
        """Use `context`, called through `bridge`."""
        self._home = CallingThread(bridge)
        self._context = context.calling_by(self._home.invoke)

    def __repr__(self) -> str:
        """Return the class, the id and the stage."""
        return repr(self._context).replace("Async", "", 1)

    @property
    def transaction(self) -> Transaction:
        """The snapshot that it reads, and its write pointers. Raises `RuntimeError` before."""
        return self._context.transaction

    @property
    def transaction_id(self) -> int:
        """The id, which names it for its life. Raises `RuntimeError` before it is started."""
        return self._context.transaction_id

    @property
    def write_pointer(self) -> int:
        """The pointer that it writes under now: its id, or that of the last checkpoint."""
        return self._context.write_pointer

    @property
    def is_committed(self) -> bool:
        """Whether it has certainly been committed."""
        return self._context.is_committed

    @property
    def suppressed(self) -> Sequence[BaseException]:
        """The errors that were not raised: in rolling back, or after the commit."""
        return self._context.suppressed

    @property
    def gathered(self) -> Gathered:
        """The publications, moves and acks in it. Raises `RuntimeError` unless it is open."""
        self._home.check_process()
        return self._context.gathered

    def add(self, participant: TransactionAware) -> None:
        """Add another participant; if the transaction is open, it is started at once.

        Raises the error of its `start`, which rolls back all participants.
        """
        self._home.call(self._context.add, participant)

    def checkpoint(self) -> Transaction:
        """Continue under a new write pointer, which separates earlier from later writes.

        Buffered work is persisted first. A failure rolls the transaction back. Raises
        `TransactionNotInProgress`, `TooLarge` (too_many_checkpoints).
        """
        return self._home.call(self._context.checkpoint)

    def abort(self) -> None:
        """Roll all back now; the end of the `with` does nothing then.

        Raises the first error, with the others as notes; the transaction is then invalid, or will
        be when it times out.
        """
        self._home.end(self, self._context.abort)

    def __enter__(self) -> Self:
        """Start the transaction, then the participants.

        Raises `TransactionDuplicate` if the owner's sequence is committed already,
        `OwnerElsewhere`, `OwnerBusy`, `InvalidRequest` (invalid_timeout, invalid_owner), and errors
        of participants.
        """
        self._home.begin(self, self._context.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the body raised. Raises the reason if it did not commit.

        A child forked within the block leaves the transaction to its parent.
        """
        if self._home.is_parents and error is not None:
            return
        self._home.end(self, self._context.__aexit__, kind, error, traceback)
