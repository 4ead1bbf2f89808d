"""The answers that members of a group got, and what must hold after them, whatever crashes.

This is not an exact model: `group_machine.py` has the model of the rules.

1. A delivered message is committed, is unchanged, and was never acknowledged.
2. A message is acknowledged once.
3. An ack without an answer holds or not; later requests show which.
4. A committed message that was read into the group is open or acknowledged.
"""

from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from tms.core.values.groups import Refusal, Settled, Taken
from tms.core.values.message import Message


class Given(NamedTuple):
    """A delivery to a member."""

    member: str
    delivery: int
    messages: list[Message]

    @property
    def ids(self) -> list[bytes]:
        """The messages' ids, ascending."""
        return [one.id for one in self.messages]


class Followed:
    """One group, from when it was created."""

    def __init__(self, *, keeps_all: bool = True) -> None:
        """Follow a group of a topic, which may keep all its messages or lose some."""
        self._keeps_all = keeps_all
        self.given: list[Given] = []
        self.seen: dict[bytes, bytes] = {}
        """The ids of all delivered messages, with their payloads."""
        self.acknowledged: set[bytes] = set()
        self.maybe: set[bytes] = set()
        """Ids whose ack had no answer."""
        self.is_moved = False
        """Whether a seek had no answer: then only deliveries after it are known."""

    def latest(self, back: int) -> Given | None:
        """Return the last delivery, or one this many before it; None if there is none."""
        return self.given[-1 - min(back, len(self.given) - 1)] if self.given else None

    def note(self, member: str, taken: Taken, committed: Container[bytes]) -> list[Message]:
        """Check the messages of a take, which must be `committed`, and return them."""
        messages = [message for block in taken.blocks for message in block]
        assert (taken.delivery is None) == (not messages)
        assert [one.id for one in messages] == sorted({one.id for one in messages})
        for one in messages:
            assert one.payload in committed, "not committed"
            assert one.id not in self.acknowledged, "it was acknowledged"
            assert self.seen.setdefault(one.id, one.payload) == one.payload
        if taken.delivery is not None:
            self.given.append(Given(member, taken.delivery, messages))
        return messages

    def acked(self, ids: Iterable[bytes], answer: object) -> list[bytes]:
        """Record acks and their answer, which is not a `Settled` if there was none.

        Return the ids that are acknowledged now.
        """
        if not isinstance(answer, Settled):
            self.maybe |= set(ids)
            return []
        refused = {one.id: one.reason for one in answer.refused}
        for each, reason in refused.items():
            is_known = each in self.acknowledged or each in self.maybe or self.is_moved
            if self._keeps_all and reason is Refusal.SETTLED:
                assert is_known, "nobody has settled it"
        done = [each for each in ids if each not in refused]
        self.acknowledge(done)
        return done

    def acknowledge(self, ids: Iterable[bytes]) -> None:
        """Record acks that hold."""
        done = set(ids)
        assert not done & self.acknowledged, "acknowledged twice"
        self.acknowledged |= done
        self.maybe -= done

    def sought(self, *, is_sure: bool) -> None:
        """Record a seek to the start, which may have got no answer."""
        if not is_sure:
            self.maybe |= self.acknowledged
        else:
            self.maybe.clear()
            self.given.clear()
        self.is_moved = not is_sure
        self.acknowledged.clear()

    def see(
        self,
        through: bytes | None,
        opened: Collection[bytes],
        committed: Collection[bytes],
        *,
        is_decided: bool,
    ) -> None:
        """Compare the group's present state with the ids of `committed` messages.

        `is_decided`: no unanswered request can be carried out any more.
        """
        read = {each for each in committed if through is not None and each <= through}
        assert set(opened) <= read, "what is open is committed, and was read"
        assert not self.acknowledged & set(opened), "what was acknowledged is open"
        assert self.acknowledged <= read, "what was acknowledged is unread"
        if is_decided:
            self.acknowledged |= (self.maybe & read) - set(opened)
            self.maybe.clear()
            self.is_moved = False
        settled = self.acknowledged | self.maybe | set(opened)
        assert read <= settled, "what was read is neither open nor acknowledged"
