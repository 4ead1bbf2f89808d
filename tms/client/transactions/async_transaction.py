"""A transaction of an application, for asyncio: Tephra's `TransactionContext`.

The rules. Participants are started with it, messages last. To commit, the participants' changes are
announced (`can_commit`, if there are any), and each persists, messages last; then the commit is
sent, which also moves subscriptions; then `post_commit` of each is called. Any failure before the
commit is carried out, including one in the body of the `with`, rolls all participants back. The
transaction is aborted if all of them succeed in that, and invalidated if one does not: readers skip
what it left. The first error is the one that is raised; later ones are added to it as notes, logged
(with a traceback if they are a participant's), and kept in `suppressed`. An error of a participant
after the commit is only logged and kept: the work is done.

If the answer to a commit is lost, the client asks the server for its outcome
(`tms.client.transactions.commit_outcome`). If the server does not answer, `OutcomeUnknown` names
the transaction, and no participant is rolled back, because it may be committed.

A cancellation (or Ctrl-C) never leaves half a commit: once a commit was sent, its outcome is
determined first.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio import CancelScope, get_cancelled_exc_class

from tms.client.transactions.commit_outcome import Commit
from tms.client.transactions.participants import Invoke, TransactionAware, invoke_in_loop
from tms.client.transactions.transaction_work import Gathered
from tms.core.errors import OutcomeUnknown, TmsError, TransactionNotInProgress
from tms.core.runtime.deadlines import at_least
from tms.core.services.commits import NOTHING
from tms.core.services.server_services import Services
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.transaction import Transaction
from tms.outgoing.answer import reason_of

INTERRUPTED_S_MAX = 5.0
"""How long to ask for the outcome of an interrupted commit: the user waits for the end."""

ROLL_BACK_S = 1.0
"""How long a rollback may take after the caller's deadline: a transaction that is not ended blocks
readers until it times out."""

_log = logging.getLogger(__name__)


class _Stage(Enum):
    NEW = "has not begun: use it in a with statement"
    OPEN = "is in progress"
    COMMITTED = "has been committed"
    ROLLED_BACK = "has been rolled back"
    IN_DOUBT = "may have been committed"


class AsyncTransactionContext:
    """One transaction, begun and ended by `async with`. Made by `AsyncClient.transaction`.

    Transactional readers see the messages of `AsyncTopic.publish(…, tx)`, the participants' work,
    and the moves of subscriptions together, or never. Any task may publish within it; only one at a
    time may begin it, end it, or call its other methods.
    """

    def __init__(
        self,
        services: Services,
        request: StartRequest,
        participants: Iterable[TransactionAware] = (),
        *,
        commit_for_s: float,
    ) -> None:
        """Start nothing yet. A commit is repeated, or asked about, for `commit_for_s` seconds."""
        self._transactions = services.transactions
        self._request = request
        self._commit_for_s = commit_for_s
        self._invoke: Invoke = invoke_in_loop
        self._gathered = Gathered()
        self._participants: list[TransactionAware] = [*participants, self._gathered.messages]
        self._started: list[TransactionAware] = []
        self._transaction: Transaction | None = None
        self._stage = _Stage.NEW
        self._suppressed: list[BaseException] = []

    def calling_by(self, invoke: Invoke) -> Self:
        """Call participants by `invoke`; return the transaction. Only before it begins."""
        assert self._stage is _Stage.NEW
        self._invoke = invoke
        return self

    def __repr__(self) -> str:
        """Return the class, the id and the stage."""
        named = "" if self._transaction is None else f"{self.transaction_id} "
        return f"<{type(self).__name__} {named}{self._stage.name}>"

    @property
    def transaction(self) -> Transaction:
        """The snapshot that it reads, and its write pointers. Raises `RuntimeError` before."""
        if self._transaction is None:
            raise RuntimeError(f"the transaction {_Stage.NEW.value}")
        return self._transaction

    @property
    def transaction_id(self) -> int:
        """The id, which names it for its life. Raises `RuntimeError` before it is started."""
        return self.transaction.transaction_id

    @property
    def write_pointer(self) -> int:
        """The pointer that it writes under now: its id, or that of the last checkpoint."""
        return self.transaction.write_pointer

    @property
    def is_committed(self) -> bool:
        """Whether it has certainly been committed."""
        return self._stage is _Stage.COMMITTED

    @property
    def suppressed(self) -> Sequence[BaseException]:
        """The errors that were not raised: in rolling back, or after the commit."""
        return tuple(self._suppressed)

    @property
    def gathered(self) -> Gathered:
        """The publications, moves and acks in it. Raises `RuntimeError` unless it is open."""
        self._check_open()
        return self._gathered

    async def add(self, participant: TransactionAware) -> None:
        """Add another participant; if the transaction is open, it is started at once.

        Raises the error of its `start`, which rolls back all participants.
        """
        if any(participant is other for other in self._participants):
            return
        if self._stage is not _Stage.NEW:
            self._check_open()
        self._participants.insert(-1, participant)  # messages stay last
        if self._transaction is not None:
            await self._start(participant)

    async def checkpoint(self) -> Transaction:
        """Continue under a new write pointer, which separates earlier from later writes.

        Buffered work is persisted first. A failure rolls the transaction back. Raises
        `TransactionNotInProgress`, `TooLarge` (too_many_checkpoints).
        """
        self._check_open()
        try:
            for participant in self._participants:
                await self._invoke(participant.persist)
            self._transaction = await self._transactions.checkpoint(self.transaction_id)
            for participant in self._participants:
                await self._invoke(participant.update, self._transaction)
        except BaseException as error:
            await self._roll_back(error)
            raise
        return self._transaction

    async def abort(self) -> None:
        """Roll all back now; the end of the `with` does nothing then.

        Raises the first error, with the others as notes; the transaction is then invalid, or will
        be when it times out.
        """
        self._check_open()
        await self._roll_back(None)
        if self._suppressed:
            first, *others = self._suppressed
            _note(first, others)
            raise first

    async def __aenter__(self) -> Self:
        """Start the transaction, then the participants.

        Raises `TransactionDuplicate` if the owner's sequence is committed already,
        `OwnerElsewhere`, `OwnerBusy`, `InvalidRequest` (invalid_timeout, invalid_owner), and errors
        of participants.
        """
        if self._stage is not _Stage.NEW:
            raise RuntimeError("a transaction is used once: make another")
        self._transaction = await self._transactions.start(self._request)
        self._gathered.transaction_id = self.transaction_id
        self._stage = _Stage.OPEN
        try:
            for participant in tuple(self._participants):
                await self._start(participant)
        except BaseException as error:
            await self._roll_back(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the body raised. Raises the reason if it did not commit."""
        if self._stage is not _Stage.OPEN:
            return
        if error is not None:
            await self._roll_back(error)
            return
        try:
            await self._prepare()
            interruption = await self._commit()
        except BaseException as failure:
            if self._stage is _Stage.OPEN:
                await self._roll_back(failure)
            else:
                for ack in self._gathered.acks:
                    ack.in_doubt()
            raise
        await self._post_commit()
        if interruption is not None:
            raise interruption

    async def _start(self, participant: TransactionAware) -> None:
        self._started.append(participant)
        await self._invoke(participant.start, self.transaction)

    async def _prepare(self) -> None:
        self._gathered.messages.check_complete()
        changes: set[bytes] = set()
        for participant in self._participants:
            found = await self._invoke(participant.changes)
            if not isinstance(found, Collection):
                found = await self._invoke(list, found)  # where the iterator does its work
            changes.update(found)
        if changes:
            await self._transactions.can_commit(self.transaction_id, changes)
        for participant in self._participants:
            await self._invoke(participant.persist)

    async def _commit(self) -> BaseException | None:
        """Commit; return a cancellation that arrived in the meantime and must still be raised."""
        request = self._gathered.request
        commit = Commit(self._transactions, self.transaction_id, request)
        interruption: BaseException | None = None
        try:
            try:
                await commit.finish(self._commit_for_s)
            except get_cancelled_exc_class() as error:
                interruption = error
                with CancelScope(shield=True):
                    await commit.finish(min(self._commit_for_s, INTERRUPTED_S_MAX))
        except TransactionNotInProgress as error:
            if error.detail.get("status") != TransactionStatus.COMMITTED:
                raise
            # By another program that joined it: the writes are committed, but not our request.
            if request != NOTHING:
                interruption = error
        except OutcomeUnknown:
            self._stage = _Stage.IN_DOUBT
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                self._stage = _Stage.IN_DOUBT  # cancelled again before its outcome was known
            raise
        self._stage = _Stage.COMMITTED
        return interruption

    async def _post_commit(self) -> None:
        with CancelScope(shield=True):
            for participant in self._participants:
                await self._try(
                    participant.post_commit, f"{participant.name} failed after the commit"
                )
            for ack in self._gathered.acks:
                ack.committed()
        self._raise_interruption()

    async def _roll_back(self, cause: BaseException | None) -> None:
        """Roll back all participants and end the transaction; add failures to `cause` as notes."""
        self._stage = _Stage.ROLLED_BACK
        with CancelScope(shield=True), at_least(ROLL_BACK_S):
            for participant in self._started:
                what = f"{participant.name} could not be rolled back"
                await self._try(participant.rollback, what)
            await self._end(all_undone=not self._suppressed)
            for ack in self._gathered.acks:
                what = "a message could not be given back; its lease will expire"
                await self._try(partial(ack.rolled_back, cause), what)
        if cause is not None:
            _note(cause, self._suppressed)
        self._raise_interruption()

    async def _try(self, method: Callable[[], Any], what: str) -> None:
        try:
            await self._invoke(method)
        except BaseException as error:
            self._suppress(what, error)

    def _raise_interruption(self) -> None:
        """Raise a cancellation that arrived during work that had to be finished."""
        for error in self._suppressed:
            if not isinstance(error, Exception):
                raise error

    async def _end(self, *, all_undone: bool) -> None:
        """Abort or invalidate. If the server is unavailable, the transaction times out instead."""
        end: Any = self._transactions.abort if all_undone else self._transactions.invalidate
        try:
            await end(self.transaction_id)
        except TransactionNotInProgress as error:
            if error.detail.get("status") == TransactionStatus.COMMITTED:
                self._suppress("another program committed the transaction", error)
        except BaseException as error:
            self._suppress("the transaction could not be ended", error)

    def _suppress(self, what: str, error: BaseException) -> None:
        error.add_note(f"transaction {self.transaction_id}: {what}")
        if isinstance(error, TmsError | get_cancelled_exc_class()):
            _log.warning("transaction %d: %s: %s", self.transaction_id, what, reason_of(error))
        else:
            _log.error("transaction %d: %s", self.transaction_id, what, exc_info=error)
        self._suppressed.append(error)

    def _check_open(self) -> None:
        if self._stage is not _Stage.OPEN:
            raise RuntimeError(f"the transaction {self._stage.value}")


def _note(error: BaseException, others: Iterable[BaseException]) -> None:
    """Add `others` to `error` as notes."""
    for other in others:
        for note in getattr(other, "__notes__", ())[-1:]:
            error.add_note(f"{note}: {other!r}")
