"""A message that a member of a group has taken, for asyncio: it is settled once.

`tms.client.groups.group_message` is made from it. Whatever settles it is durable when it returns;
the one exception is `ack(tx)`, which holds if and only if the transaction commits.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

from anyio import move_on_after

from tms.client.transactions.transaction_work import OpenTransaction, by_delivery
from tms.core.errors import InvalidRequest, LeaseLost, TmsError
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.values.groups import CommitAcks, check_delay
from tms.core.values.message import Message

RELEASE_S_MAX = 5.0
"""How long a program that ends waits until a message is given back."""


def _check_nack(delay_s: float | None, reason: str) -> None:
    """Refuse what cannot be sent here, because others' acks go in the same request."""
    if not isinstance(delay_s, int | float | None):
        raise TypeError(f"delay_s is a number of seconds, not {type(delay_s).__name__}")
    if not isinstance(reason, str):
        raise TypeError(f"a reason is a str, not {type(reason).__name__}")
    check_delay(delay_s)


class Retry(Exception):
    """Raised by a worker's function to have its message given again, after `delay_s` seconds.

    None is the back-off of the group's settings. The reason is kept by the server.
    """

    def __init__(self, delay_s: float | None = None, reason: str = "") -> None:
        """Ask for another attempt.

        Raises `InvalidRequest` for a delay that cannot be, and `TypeError`.
        """
        _check_nack(delay_s, reason)
        super().__init__(delay_s, reason)
        self.delay_s = delay_s
        self.reason = reason or "retry"


class Reject(Exception):
    """Raised by a worker's function to make its message a dead letter, with a reason.

    If the group has no topic of dead letters, it is an attempt that failed.
    """

    def __init__(self, reason: str = "") -> None:
        """Give the message up. Raises `TypeError`."""
        _check_nack(None, reason)
        super().__init__(reason)
        self.reason = reason or "rejected"


class Settling(Enum):
    """Where a taken message stands, as its member knows it."""

    HELD = "is held"
    IN_COMMIT = "is acknowledged by a transaction that has not ended"
    SETTLED = "is settled"
    LOST = "is not held any more: its lease has ended, or it was taken back"


UNSETTLED = (Settling.HELD, Settling.LOST)
"""Where the function of a worker has not settled its message. If it is lost, the ack raises: the
work on it must not be committed."""


def reason_of(error: BaseException) -> str:
    """Return what is kept of an exception, whatever its `repr` does."""
    try:
        return repr(error)
    except BaseException:
        return type(error).__name__


def _ends_program(error: BaseException) -> bool:
    """Whether the body ended for a reason that is not the message's: a cancellation, Ctrl-C."""
    if isinstance(error, asyncio.CancelledError):  # else it is of something that the body awaited
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


class Holder(Protocol):
    """The member that took messages."""

    async def ack(self, message: "AsyncGroupMessage") -> None:
        """Acknowledge it. Raises `LeaseLost`."""
        ...

    async def fail(
        self,
        message: "AsyncGroupMessage",
        delay_s: float | None,
        reason: str,
        *,
        dead: bool = False,
    ) -> None:
        """Have it given again later, or make it a dead letter. Raises `InvalidRequest`."""
        ...

    async def release(self, message: "AsyncGroupMessage") -> None:
        """Give it back; no attempt is counted."""
        ...

    def acks_of(self, message: "AsyncGroupMessage") -> CommitAcks:
        """Return what a commit carries of it."""
        ...

    def forget(self, message: "AsyncGroupMessage") -> None:
        """Hold it no more: its lease ends, unless it is settled."""
        ...

    def give_up(self, message: "AsyncGroupMessage") -> None:
        """Hold it no more, though it may not be settled; nor, by key, the later ones of its key."""
        ...


class AsyncGroupMessage:
    """A message of a group, leased to the member that took it. Given by `AsyncTopicGroup.take`.

    Used by `async with`, it is acknowledged at the end. An exception within nacks it, with itself
    as the reason; a cancellation gives it back, and no attempt is counted.
    """

    def __init__(self, holder: Holder, message: Message, delivery: int, attempt: int) -> None:
        """Belong to `holder`."""
        self._holder = holder
        self._message = message
        self._delivery = delivery
        self._attempt = attempt
        self._settling = Settling.HELD

    def __repr__(self) -> str:
        """Return the class, the message, and the number of the attempt."""
        return f"<{type(self).__name__} {self._message!r}, attempt {self._attempt}>"

    @property
    def message(self) -> Message:
        """The message, as a poll gives it."""
        return self._message

    @property
    def id(self) -> bytes:
        """Its id of 20 bytes."""
        return self._message.id

    @property
    def payload(self) -> bytes:
        """Its payload."""
        return self._message.payload

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        return self._message.key

    @property
    def headers(self) -> Mapping[str, bytes]:
        """Its headers by their names."""
        return self._message.headers

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._attempt

    @property
    def delivery(self) -> int:
        """The number of the take that got it."""
        return self._delivery

    @property
    def taken(self) -> "AsyncGroupMessage":
        """The message as the client has it, in whatever form the program does."""
        return self

    @property
    def settling(self) -> Settling:
        """Where it stands."""
        return self._settling

    async def ack(self, tx: OpenTransaction | None = None) -> None:
        """Acknowledge it: nobody gets it again. Durable when it returns.

        With `tx` it is acknowledged if and only if that commits, in the same flush; a rollback
        nacks it. Raises `LeaseLost` if another member has it now; with `tx` the commit raises
        `AckRefused` then. If it is settled already, nothing is done.
        """
        if self._settling is Settling.SETTLED:
            return
        self._check_held()
        if tx is None:
            await self._holder.ack(self)
        else:
            tx.gathered.acks.append(self)
            self._settling = Settling.IN_COMMIT

    async def nack(self, delay_s: float | None = None, reason: str = "") -> None:
        """Have it given again, after `delay_s` seconds; by default as the group's settings say.

        Durable when it returns; an attempt is counted. With the order `key` the later messages of
        its key go back too. If it is settled, or not held any more, nothing is done. Raises
        `InvalidRequest` (invalid_group) for a delay that cannot be, and `TypeError`.
        """
        _check_nack(delay_s, reason)
        if self._settling is Settling.HELD:
            await self._holder.fail(self, delay_s, reason)

    async def reject(self, reason: str = "") -> None:
        """Make it a dead letter: nobody gets it again, unless it is redriven.

        Durable when it returns. With the order `key` the later messages of its key go back. If it
        is settled, or not held any more, nothing is done. Raises `InvalidRequest` (invalid_group)
        if the group has no topic of dead letters; then it is still held. Raises `TypeError`.
        """
        _check_nack(None, reason)
        if self._settling is Settling.HELD:
            await self._holder.fail(self, None, reason, dead=True)

    async def take_away(self, reason: str) -> bool:
        """Have it given again though the work on it goes on; return whether it was held.

        A later ack raises `LeaseLost`, so that what the work does in a transaction is rolled back.
        """
        if self._settling not in (Settling.HELD, Settling.IN_COMMIT):
            return False
        try:
            await self._holder.fail(self, None, reason)
        finally:
            self._settling = Settling.LOST
        return True

    async def release(self) -> None:
        """Give it back at once; no attempt is counted. If it is not held, nothing is done."""
        if self._settling is Settling.HELD:
            await self._holder.release(self)

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Acknowledge it, or nack it if the body raised. What is settled already stays as it is.

        Raises `LeaseLost` as `ack` does.
        """
        if error is None and self._settling in UNSETTLED:
            try:
                await self.ack()
            except BaseException:
                self._holder.give_up(self)  # or its lease would go on, and nobody settles it
                raise
        if error is None or self._settling is not Settling.HELD:
            return
        try:
            await self._give_back_after(error)
        except TmsError as failed:
            error.add_note(f"the message was not nacked, and is given again later: {failed!r}")

    async def _give_back_after(self, error: BaseException) -> None:
        if isinstance(error, Retry):
            await self.nack(error.delay_s, error.reason)
        elif isinstance(error, Reject):
            await self.reject_or_nack(error.reason)
        elif _ends_program(error):  # it goes on behind this
            with move_on_after(RELEASE_S_MAX, shield=True):
                await self.release()
        else:
            await self.nack(reason=reason_of(error))

    async def reject_or_nack(self, reason: str) -> None:
        """Make it a dead letter; nack it if its group has none."""
        try:
            await self.reject(reason)
        except InvalidRequest:
            await self.nack(reason=reason)

    # -- what transactions and the holder tell it

    def _check_held(self) -> None:
        if self._settling is Settling.LOST:
            raise LeaseLost(id=self.id.hex(), delivery=self._delivery, reason="lease_lost")
        if self._settling is Settling.IN_COMMIT:
            raise RuntimeError(f"the message {self._settling.value}")

    def commit_acks(self) -> CommitAcks:
        """Return what a commit carries of it."""
        return self._holder.acks_of(self)

    def committed(self) -> None:
        """Learn that the commit which carried its ack is done."""
        self._settling = Settling.SETTLED
        self._holder.forget(self)

    async def rolled_back(self, cause: BaseException | None) -> None:
        """Learn that the transaction which was to acknowledge it is not committed."""
        self._settling = Settling.HELD
        await self._give_back_after(RuntimeError("rolled back") if cause is None else cause)

    def in_doubt(self) -> None:
        """Learn that nobody knows whether the transaction which was to acknowledge it committed."""
        self._holder.give_up(self)

    def settle_as(self, settling: Settling) -> None:
        """Stand there from now on; for the member that took it."""
        self._settling = settling

    def begin_commit(self) -> Settling:
        """Learn that a commit carries its ack; return where it stood. Raises `LeaseLost`."""
        self._check_held()
        before, self._settling = self._settling, Settling.IN_COMMIT
        return before


@contextmanager
def acknowledging(messages: Iterable[AsyncGroupMessage]) -> Iterator[CommitRequest]:
    """Give the request that acknowledges messages, which the body sends with a commit.

    They are settled if the body does not raise, otherwise they are held as before. One that was
    settled before goes along, so that the server refuses all. Raises `LeaseLost`.
    """
    before: dict[AsyncGroupMessage, Settling] = {}
    try:
        for message in messages:
            before[message] = message.begin_commit()
        yield CommitRequest(acks=by_delivery(before)) if before else NOTHING
    except BaseException:
        for message, settling in before.items():
            if message.settling is Settling.IN_COMMIT:  # and not lost meanwhile
                message.settle_as(settling)
        raise
    for message in before:
        message.committed()
