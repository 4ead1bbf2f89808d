"""`GroupMessage` for threads, made from `tms.client.groups.async_group_message`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tms.client.groups.async_group_message import AsyncGroupMessage, Settling
from tms.client.threads.bridge import Bridge
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.values.message import Message


class GroupMessage:
    """A message of a group, leased to the member that took it. Given by `TopicGroup.take`.

    At the end of its `with` it is acknowledged. An exception in the block nacks it, with the
    exception as the reason; a cancellation gives it back, and no attempt is counted.
    """

    def __init__(self, taken: AsyncGroupMessage, bridge: Bridge) -> None:
        """Use `taken`, called through `bridge`."""
        self._taken = taken
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class, the message, and the number of the attempt."""
        return repr(self._taken).replace("Async", "", 1)

    @property
    def message(self) -> Message:
        """The message, as a poll returns it."""
        return self._taken.message

    @property
    def id(self) -> bytes:
        """Its id of 20 bytes."""
        return self._taken.id

    @property
    def payload(self) -> bytes:
        """Its payload."""
        return self._taken.payload

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        return self._taken.key

    @property
    def headers(self) -> Mapping[str, bytes]:
        """Its headers by their names."""
        return self._taken.headers

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._taken.attempt

    @property
    def delivery(self) -> int:
        """The number of the delivery, the take that returned it."""
        return self._taken.delivery

    @property
    def taken(self) -> "AsyncGroupMessage":
        """The asynchronous message, in either client."""
        return self._taken.taken

    @property
    def settling(self) -> Settling:
        """Its state."""
        return self._taken.settling

    def ack(self, tx: OpenTransaction | None = None) -> None:
        """Acknowledge it: no member gets it again. Durable when it returns.

        With `tx` it is acknowledged if and only if that commits, in the same flush; a rollback
        nacks it. Raises `LeaseLost` if another member has it now; with `tx` the commit raises
        `AckRefused` then. Does nothing if it is settled already.
        """
        self._bridge.call(self._taken.ack, tx)

    def nack(self, delay_s: float | None = None, reason: str = "") -> None:
        """Nack it: it is delivered again after `delay_s` seconds, by default the group's back-off.

        Durable when it returns; an attempt is counted. With the order `key`, later messages of its
        key go back too. Does nothing if it is settled or no longer held. Raises `InvalidRequest`
        (invalid_group) for an invalid delay, and `TypeError`.
        """
        self._bridge.call(self._taken.nack, delay_s, reason)

    def reject(self, reason: str = "") -> None:
        """Make it a dead letter: no member gets it again, unless it is redriven.

        Durable when it returns. With the order `key`, later messages of its key go back. Does
        nothing if it is settled or no longer held. Raises `InvalidRequest` (invalid_group) if the
        group has no topic of dead letters; then it is still held. Raises `TypeError`.
        """
        self._bridge.call(self._taken.reject, reason)

    def take_away(self, reason: str) -> bool:
        """Fail it although its work continues; it is delivered again. Return whether it was held.

        A later ack raises `LeaseLost`, so that what the work does in a transaction is rolled back.
        """
        return self._bridge.call(self._taken.take_away, reason)

    def release(self) -> None:
        """Give it back at once; no attempt is counted. Does nothing if it is not held."""
        self._bridge.call(self._taken.release)

    def __enter__(self) -> Self:
        """Return the message."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Acknowledge it, or nack it if the body raised, unless it is settled already.

        Raises `LeaseLost` as `ack` does.
        """
        self._bridge.call(self._taken.__aexit__, kind, error, traceback)

    def reject_or_nack(self, reason: str) -> None:
        """Make it a dead letter; nack it if its group has none."""
        self._bridge.call(self._taken.reject_or_nack, reason)
