"""A message that a member of a group has taken, for asyncio; it is settled once.

`tms.client.groups.group_message` is made from it. A method that settles it has done so durably when
it returns; the one exception is `ack(tx)`, which takes effect if and only if the transaction
commits.
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
"""How long a program that is ending waits for a message to be given back."""


def _check_nack(delay_s: float | None, reason: str) -> None:
    """Refuse invalid values here, because the same request carries other messages' acks."""
    if not isinstance(delay_s, int | float | None):
        raise TypeError(f"delay_s is a number of seconds, not {type(delay_s).__name__}")
    if not isinstance(reason, str):
        raise TypeError(f"a reason is a str, not {type(reason).__name__}")
    check_delay(delay_s)


class Retry(Exception):
    """Raised by a worker's function to get its message again, after `delay_s` seconds.

    None means the back-off of the group's settings. The server keeps the reason.
    """

    def __init__(self, delay_s: float | None = None, reason: str = "") -> None:
        """Request another attempt.

        Raises `InvalidRequest` for an invalid delay, and `TypeError`.
        """
        _check_nack(delay_s, reason)
        super().__init__(delay_s, reason)
        self.delay_s = delay_s
        self.reason = reason or "retry"


class Reject(Exception):
    """Raised by a worker's function to make its message a dead letter, with a reason.

    If the group has no topic of dead letters, it counts as a failed attempt.
    """

    def __init__(self, reason: str = "") -> None:
        """Give up the message. Raises `TypeError`."""
        _check_nack(None, reason)
        super().__init__(reason)
        self.reason = reason or "rejected"


class Settling(Enum):
    """The state of a taken message, as its member knows it."""

    HELD = "is held"
    IN_COMMIT = "is acknowledged by a transaction that has not ended"
    SETTLED = "is settled"
    LOST = "is not held any more: its lease has ended, or it was taken back"


UNSETTLED = (Settling.HELD, Settling.LOST)
"""The states in which a worker's function has not settled its message. If it is lost, the ack
raises, because the work on it must not be committed."""


def reason_of(error: BaseException) -> str:
    """Return the text that is kept of an exception, even if its `repr` fails."""
    try:
        return repr(error)
    except BaseException:
        return type(error).__name__


def _ends_program(error: BaseException) -> bool:
    """Whether the body ended for a reason other than the message: a cancellation, Ctrl-C."""
    if isinstance(error, asyncio.CancelledError):  # otherwise the body awaited something cancelled
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
        """Nack it, or make it a dead letter. Raises `InvalidRequest`."""
        ...

    async def release(self, message: "AsyncGroupMessage") -> None:
        """Give it back; no attempt is counted."""
        ...

    def acks_of(self, message: "AsyncGroupMessage") -> CommitAcks:
        """Return what a commit carries of it."""
        ...

    def forget(self, message: "AsyncGroupMessage") -> None:
        """Hold it no longer: its lease expires, unless it is settled."""
        ...

    def give_up(self, message: "AsyncGroupMessage") -> None:
        """Hold it no longer, settled or not; with order `key`, nor later ones of its key."""
        ...


class AsyncGroupMessage:
    """A message of a group, leased to the member that took it. Given by `AsyncTopicGroup.take`.

    At the end of its `async with` it is acknowledged. An exception in the block nacks it, with the
    exception as the reason; a cancellation gives it back, and no attempt is counted.
    """

    def __init__(self, holder: Holder, message: Message, delivery: int, attempt: int) -> None:
        """Store the member that holds it, and its numbers."""
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
        """The message, as a poll returns it."""
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
        """The number of the delivery, the take that returned it."""
        return self._delivery

    @property
    def taken(self) -> "AsyncGroupMessage":
        """The asynchronous message, in either client."""
        return self

    @property
    def settling(self) -> Settling:
        """Its state."""
        return self._settling

    async def ack(self, tx: OpenTransaction | None = None) -> None:
        """Acknowledge it: no member gets it again. Durable when it returns.

        With `tx` it is acknowledged if and only if that commits, in the same flush; a rollback
        nacks it. Raises `LeaseLost` if another member has it now; with `tx` the commit raises
        `AckRefused` then. Does nothing if it is settled already.
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
        """Nack it: it is delivered again after `delay_s` seconds, by default the group's back-off.

        Durable when it returns; an attempt is counted. With the order `key`, later messages of its
        key go back too. Does nothing if it is settled or no longer held. Raises `InvalidRequest`
        (invalid_group) for an invalid delay, and `TypeError`.
        """
        _check_nack(delay_s, reason)
        if self._settling is Settling.HELD:
            await self._holder.fail(self, delay_s, reason)

    async def reject(self, reason: str = "") -> None:
        """Make it a dead letter: no member gets it again, unless it is redriven.

        Durable when it returns. With the order `key`, later messages of its key go back. Does
        nothing if it is settled or no longer held. Raises `InvalidRequest` (invalid_group) if the
        group has no topic of dead letters; then it is still held. Raises `TypeError`.
        """
        _check_nack(None, reason)
        if self._settling is Settling.HELD:
            await self._holder.fail(self, None, reason, dead=True)

    async def take_away(self, reason: str) -> bool:
        """Fail it although its work continues; it is delivered again. Return whether it was held.

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
        """Give it back at once; no attempt is counted. Does nothing if it is not held."""
        if self._settling is Settling.HELD:
            await self._holder.release(self)

    async def __aenter__(self) -> Self:
        """Return the message."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Acknowledge it, or nack it if the body raised, unless it is settled already.

        Raises `LeaseLost` as `ack` does.
        """
        if error is None and self._settling in UNSETTLED:
            try:
                await self.ack()
            except BaseException:
                self._holder.give_up(self)  # otherwise its lease is extended, but nobody settles it
                raise
        if error is None or self._settling is not Settling.HELD:
            return
        try:
            await self._give_back_after(error)
        except TmsError as failed:
            error.add_note(
                f"the message was not nacked, and will be delivered again later: {failed!r}"
            )

    async def _give_back_after(self, error: BaseException) -> None:
        if isinstance(error, Retry):
            await self.nack(error.delay_s, error.reason)
        elif isinstance(error, Reject):
            await self.reject_or_nack(error.reason)
        elif _ends_program(error):  # it is raised again after this
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

    # -- called by transactions and by the holder

    def _check_held(self) -> None:
        if self._settling is Settling.LOST:
            raise LeaseLost(id=self.id.hex(), delivery=self._delivery, reason="lease_lost")
        if self._settling is Settling.IN_COMMIT:
            raise RuntimeError(f"the message {self._settling.value}")

    def commit_acks(self) -> CommitAcks:
        """Return what a commit carries of it."""
        return self._holder.acks_of(self)

    def committed(self) -> None:
        """Record that the transaction that acknowledges it is committed."""
        self._settling = Settling.SETTLED
        self._holder.forget(self)

    async def rolled_back(self, cause: BaseException | None) -> None:
        """Nack it or give it back: its transaction did not commit."""
        self._settling = Settling.HELD
        await self._give_back_after(RuntimeError("rolled back") if cause is None else cause)

    def in_doubt(self) -> None:
        """Record that the outcome of the transaction that acknowledges it is unknown."""
        self._holder.give_up(self)

    def settle_as(self, settling: Settling) -> None:
        """Set its state; for the member that took it."""
        self._settling = settling

    def begin_commit(self) -> Settling:
        """Record that a commit carries its ack; return its earlier state. Raises `LeaseLost`."""
        self._check_held()
        before, self._settling = self._settling, Settling.IN_COMMIT
        return before


@contextmanager
def acknowledging(messages: Iterable[AsyncGroupMessage]) -> Iterator[CommitRequest]:
    """Yield the request that acknowledges messages; the body sends it with a commit.

    They are settled if the body does not raise, otherwise held as before. A message that was
    settled before is included, so that the server refuses all. Raises `LeaseLost`.
    """
    before: dict[AsyncGroupMessage, Settling] = {}
    try:
        for message in messages:
            before[message] = message.begin_commit()
        yield CommitRequest(acks=by_delivery(before)) if before else NOTHING
    except BaseException:
        for message, settling in before.items():
            if message.settling is Settling.IN_COMMIT:  # and not lost in the meantime
                message.settle_as(settling)
        raise
    for message in before:
        message.committed()
