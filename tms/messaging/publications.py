"""What open transactions have published and not rolled back, as far as this process knows.

It answers three questions: where a transaction has published, for those who look after the server;
whether all of that was rolled back, without which an abort would make it visible; and whose readers
to wake when it ends. Publications are noted when they join a flush, so what a flush has done before
is known within it. Those that then fail stay noted: they may be in the table.

Fulfils `tms.core.transactions.Publications`. Used from the event loop's thread alone.
"""

from collections.abc import Callable, Iterable, Sequence

from tms.core.message import LAST_ID
from tms.core.topic import TopicId

_RANGES_MAX = 1_000
"""Ranges kept of one write pointer and topic; beyond, they become one, which a rollback of its
parts does not clear: then an abort leaves the transaction invalid, which is safe."""

Range = tuple[bytes, bytes]
"""First and last key, inclusive."""


class Publications:
    """The ranges of all write pointers in use."""

    def __init__(self) -> None:
        self._wake: Callable[[TopicId], None] = _wake_nobody
        self._wake_all: Callable[[], None] = _wake_none
        self._by_pointer: dict[int, dict[TopicId, list[Range]]] = {}
        self._references: dict[int, dict[TopicId, bytes]] = {}
        """The first reference under each pointer, rolled back or not."""

    def wake_by(self, wake: Callable[[TopicId], None], wake_all: Callable[[], None]) -> None:
        """Have the readers of a topic woken by `wake`, those of all by `wake_all`."""
        self._wake, self._wake_all = wake, wake_all

    def published(self, write_pointer: int, topic_id: TopicId, first: bytes, last: bytes) -> None:
        """Note that entries from key `first` to `last` are under `write_pointer`."""
        topics = self._by_pointer.setdefault(write_pointer, {})
        ranges = topics.setdefault(topic_id, [])
        ranges.append((first, last))
        if len(ranges) > _RANGES_MAX:
            topics[topic_id] = [(ranges[0][0], last)]

    def referred(self, write_pointer: int, topic_id: TopicId, key: bytes) -> None:
        """Note that the entry at `key` refers to what is stored under `write_pointer`."""
        self._references.setdefault(write_pointer, {}).setdefault(topic_id, key)

    def first_keys(self, write_pointers: Iterable[int]) -> dict[TopicId, bytes]:
        """Return the first key under any of the pointers that was not rolled back, by topic."""
        return _least(
            (topic_id, ranges[0][0])
            for pointer in write_pointers
            for topic_id, ranges in self._by_pointer.get(pointer, {}).items()
        )

    def first_references(self, write_pointers: Iterable[int]) -> dict[TopicId, bytes]:
        """Return the first key of a reference under any of the pointers, by topic."""
        return _least(
            reference
            for pointer in write_pointers
            for reference in self._references.get(pointer, {}).items()
        )

    def rolled_back(self, write_pointer: int, topic_id: TopicId, first: bytes, last: bytes) -> None:
        """Note that what is between the keys `first` and `last` was rolled back."""
        topics = self._by_pointer.get(write_pointer, {})
        ranges = topics.pop(topic_id, [])
        left = [(start, end) for start, end in ranges if not first <= start <= end <= last]
        if left:
            topics[topic_id] = left

    def ranges(self, write_pointer: int) -> dict[TopicId, list[Range]]:
        """Return what is under a pointer and was not rolled back, by topic."""
        topics = self._by_pointer.get(write_pointer, {})
        return {topic_id: list(ranges) for topic_id, ranges in topics.items()}

    def are_left(self, write_pointers: Iterable[int]) -> bool:
        """Whether there is anything under the pointers that was not rolled back."""
        return any(self._by_pointer.get(pointer) for pointer in write_pointers)

    def topics(self, write_pointers: Iterable[int]) -> Sequence[str]:
        """Return the topics that have something under the pointers, as `namespace:topic`."""
        return sorted({str(topic_id) for topic_id in self._topic_ids(write_pointers)})

    def wake(self, write_pointers: Iterable[int]) -> None:
        """Wake the readers of those topics: the transaction has ended."""
        for topic_id in self._topic_ids(write_pointers):
            self._wake(topic_id)

    def wake_all(self) -> None:
        """Wake all readers: one has ended of which nobody knows where it published."""
        self._wake_all()

    def forget(self, write_pointers: Iterable[int]) -> None:
        """Forget what is under the pointers."""
        for pointer in write_pointers:
            self._by_pointer.pop(pointer, None)
            self._references.pop(pointer, None)

    def _topic_ids(self, write_pointers: Iterable[int]) -> set[TopicId]:
        return {
            topic_id for pointer in write_pointers for topic_id in self._by_pointer.get(pointer, ())
        }


def _least(keys: Iterable[tuple[TopicId, bytes]]) -> dict[TopicId, bytes]:
    least: dict[TopicId, bytes] = {}
    for topic_id, key in keys:
        if key < least.get(topic_id, LAST_ID):
            least[topic_id] = key
    return least


def _wake_nobody(_: TopicId) -> None:
    """Stand for messaging until it is there."""


def _wake_none() -> None:
    """Stand for messaging until it is there."""
