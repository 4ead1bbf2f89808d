"""The rules of acknowledgements: which messages of a group a call may settle. Pure.

1. An ack counts under the last delivery that had the message, by its member, also if the lease has
   ended, as long as nobody has had the message since.
2. What a process gave last may not have been written when it died. The one that goes on knows only
   between which numbers that was, and accepts these for messages that were read before.
3. By key, an ack needs that no earlier message of its key is open.
"""

from typing import NamedTuple

from tms.core.values.groups import Refusal
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.state import OpenMessages


class UnwrittenTakes(NamedTuple):
    """The deliveries that may have been given, and not written, before a state was read."""

    through: bytes | None
    """They were of messages up to this id."""
    after: int
    before: int
    """Their numbers lie between these two."""


class AckCheck:
    """The check of one call. Ask for its messages in the order of their ids."""

    def __init__(self, state: OpenMessages, unwritten: UnwrittenTakes) -> None:
        """Accept nothing yet."""
        self.state = state
        self.last: bytes | None = None
        """The message that was accepted last."""
        self._unwritten = unwritten
        self._of_key: dict[bytes, int] = {}
        """How many of each key are accepted. They are its first open ones."""

    def refusal(self, each: bytes, number: int, member: Taker) -> Refusal | None:
        """Return why the ack of a message is refused; None accepts it."""
        reason = self._refusal(each, number, member)
        if reason is None:
            self.last = each
            digest = self.state.open[each].digest
            if digest is not None:
                self._of_key[digest] = self._of_key.get(digest, 0) + 1
        return reason

    def _refusal(self, each: bytes, number: int, member: Taker) -> Refusal | None:
        state = self.state
        opened = state.open.get(each)
        if opened is None:
            return Refusal.SETTLED if state.was_read(each) else Refusal.LEASE_LOST
        if not self._had(each, number, member):
            return Refusal.LEASE_LOST
        if opened.digest is not None:
            next_one = self._of_key.get(opened.digest, 0)
            if state.keys[opened.digest].open[next_one] != each:
                return Refusal.EARLIER_OPEN
        return None

    def _had(self, each: bytes, number: int, member: Taker) -> bool:
        """Whether a member had an open message under `number`, and nobody has had it since."""
        opened, floor = self.state.open[each], self.state.floor
        if opened.last_delivery == number:
            return opened.last_taker == member and number > floor
        through, after, before = self._unwritten
        if opened.delivery or opened.last_delivery > after or through is None or each > through:
            return False  # who had it last is known
        return max(after, floor) < number < before
