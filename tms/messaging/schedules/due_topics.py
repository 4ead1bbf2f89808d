"""The topics with scheduled messages, by when the first of each is due. Pure."""

from collections.abc import Sequence
from heapq import heappop, heappush

from tms.core.values.topic import TopicId

_STALE_MIN = 64


class DueTopics:
    """A heap of topics. A topic has one time at most."""

    def __init__(self) -> None:
        self._due_ms: dict[TopicId, int] = {}
        self._heap: list[tuple[int, TopicId]] = []
        """Has an entry for each topic with its time, and stale ones."""

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, topic: TopicId) -> bool:
        return topic in self._due_ms

    def put(self, topic: TopicId, due_ms: int) -> bool:
        """Let a topic be due at a time, unless it is due before; return whether it is the first."""
        if self._due_ms.get(topic, due_ms + 1) > due_ms:
            self._due_ms[topic] = due_ms
            heappush(self._heap, (due_ms, topic))
            if len(self._heap) > 2 * len(self._due_ms) + _STALE_MIN:
                self._heap = sorted((due, each) for each, due in self._due_ms.items())
        return self.first_ms() == due_ms

    def first_ms(self) -> int | None:
        """Return when the first topic is due; None if there is none."""
        heap = self._heap
        while heap and self._due_ms.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take(self, now_ms: int, count_max: int) -> Sequence[tuple[int, TopicId]]:
        """Remove and return topics that are due, with their times: the first `count_max` ones."""
        taken: list[tuple[int, TopicId]] = []
        while len(taken) < count_max:
            first_ms = self.first_ms()
            if first_ms is None or first_ms > now_ms:
                break
            taken.append(heappop(self._heap))
            del self._due_ms[taken[-1][1]]
        return taken

    def clear(self) -> None:
        """Remove all topics."""
        self._due_ms.clear()
        self._heap.clear()
