"""The expected answers, as of a standalone service: the messages that readers of a log get."""

from collections.abc import Collection

from tests.simulation.leaders import End, Work
from tms.core.values.topic import TopicId

Log = list[tuple[bytes, bytes]]
"""Ids and payloads, in order. A payload is its transaction's number, a dot, and its own."""


class Oracle:
    """The acknowledged messages, and the messages that readers got."""

    def __init__(self, topics: Collection[TopicId]) -> None:
        self.acknowledged: dict[TopicId, list[bytes]] = {topic: [] for topic in topics}
        self.shown: dict[TopicId, Log] = {topic: [] for topic in topics}
        self.committed: dict[TopicId, Log] = {topic: [] for topic in topics}
        self.works: dict[int, Work] = {}
        self.fixed: dict[tuple[TopicId, int], list[bytes]] = {}
        """All messages of a committed transaction in a topic, as readers got them."""

    @property
    def is_stopped(self) -> bool:
        """Whether a committed reader may stop before the end."""
        ended = (End.COMMITTED, End.UNDONE)
        return any(work.end not in ended for work in self.works.values())

    def see(self, topic: TopicId, all_of_it: Log, committed: Log) -> None:
        """Compare the messages that readers of a topic get now."""
        self.show(topic, all_of_it, committed)
        ids = [each for each, _ in all_of_it]
        assert ids == sorted(set(ids))
        payloads = [payload for _, payload in all_of_it]
        known = set(self.acknowledged[topic])
        assert [each for each in payloads if each in known] == self.acknowledged[topic]
        self._see_transactions(topic, [payload for _, payload in committed])

    def show(self, topic: TopicId, all_of_it: Log, committed: Log) -> None:
        """Check that the messages that readers got before are unchanged."""
        for before, now in ((self.shown, all_of_it), (self.committed, committed)):
            assert now[: len(before[topic])] == before[topic], "what was shown is not as it was"
            before[topic] = now

    def _see_transactions(self, topic: TopicId, committed: list[bytes]) -> None:
        """Check that a committed reader gets every committed transaction whole."""
        given: dict[int, list[bytes]] = {}
        for payload in committed:
            given.setdefault(number_of(payload), []).append(payload)
        for work in self.works.values():
            own = given.get(work.number, [])
            if work.end in (End.OPEN, End.UNDOING, End.UNDONE):
                assert not own, "of a transaction that did not commit"
            elif work.end is End.COMMITTED:
                certain = [*work.certain.get(topic, []), *work.stored.get(topic, [])]
                sure = [each for each in own if each in certain]
                assert sure == (certain[: len(sure)] if self.is_stopped else certain)
                if not self.is_stopped:
                    assert self.fixed.setdefault((topic, work.number), own) == own


def number_of(payload: bytes) -> int:
    """Return the number of the transaction that published a payload; 0 if none did."""
    return int(payload.partition(b".")[0])
