"""The rules of acknowledgements: which messages of a group a call may settle. Pure.

1. An ack counts if it comes from the member of the last delivery that had the message and names
   that delivery. It counts even after the lease has ended, until the message is delivered again.
2. A process may die before its last deliveries are written. Its successor knows only the range of
   their numbers, and accepts any number in that range for messages that were read before.
3. By key, an ack is refused while an earlier message of its key is open.
"""

from typing import NamedTuple

from tms.core.values.groups import Refusal
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.state import OpenMessages


class UnwrittenTakes(NamedTuple):
    """The deliveries that an earlier process may have made without writing them."""

    through: bytes | None
    """They had messages up to this id."""
    after: int
    before: int
    """Their numbers lie between these two."""


class AckCheck:
    """The check of one call; its messages must be checked in the order of their ids."""

    def __init__(self, state: OpenMessages, unwritten: UnwrittenTakes) -> None:
        """Start without an accepted message."""
        self.state = state
        self.last: bytes | None = None
        """The last accepted message."""
        self._unwritten = unwritten
        self._of_key: dict[bytes, int] = {}
        """The number of accepted messages per key. They are the key's first open ones."""

    def refusal(self, message_id: bytes, number: int, member: Taker) -> Refusal | None:
        """Return why the ack of a message is refused; None accepts it."""
        reason = self._refusal(message_id, number, member)
        if reason is None:
            self.last = message_id
            digest = self.state.open[message_id].digest
            if digest is not None:
                self._of_key[digest] = self._of_key.get(digest, 0) + 1
        return reason

    def _refusal(self, message_id: bytes, number: int, member: Taker) -> Refusal | None:
        state = self.state
        opened = state.open.get(message_id)
        if opened is None:
            return Refusal.SETTLED if state.was_read(message_id) else Refusal.LEASE_LOST
        if not self._had(message_id, number, member):
            return Refusal.LEASE_LOST
        if opened.digest is not None:
            next_one = self._of_key.get(opened.digest, 0)
            if state.keys[opened.digest].open[next_one] != message_id:
                return Refusal.EARLIER_OPEN
        return None

    def _had(self, message_id: bytes, number: int, member: Taker) -> bool:
        """Whether a member had an open message under `number`, and nobody has had it since."""
        opened, floor = self.state.open[message_id], self.state.floor
        if opened.last_delivery == number:
            return opened.last_taker == member and number > floor
        through, after, before = self._unwritten
        if (
            opened.delivery
            or opened.last_delivery > after
            or through is None
            or message_id > through
        ):
            return False  # the last delivery of it is known
        return max(after, floor) < number < before
