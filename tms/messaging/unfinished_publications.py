"""The messages that open transactions have published and stored, as far as this process knows.

It answers five questions:
1. where a transaction has published, for operators;
2. whether all of that was rolled back: if not, an abort would make it visible;
3. whether a range was rolled back only in part: then a commit would show the rest;
4. the readers of which topics to wake when it ends;
5. from which key on a topic has its stored messages, which retention must keep.

Everything is recorded when it joins a flush, so later requests of the same flush know it. A failed
write stays recorded, because it may be in the table.

Implements `tms.core.services.transactions.Publications`. Used from the event loop's thread alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tms.core.values.message import LAST_ID
from tms.core.values.topic import TopicId, TopicMetadata

_RANGES_MAX = 1_000
"""Ranges kept for one write pointer and topic. More of them are merged into one, which a rollback
of its parts does not clear: then an abort leaves the transaction invalid, which is safe."""

KeyRange = tuple[bytes, bytes]
"""First and last key, inclusive."""


class Generation(NamedTuple):
    """One generation of a topic, independent of the publications to the next."""

    topic_id: TopicId
    number: int

    @classmethod
    def of(cls, topic: TopicMetadata) -> "Generation":
        """Return the generation of a topic that exists."""
        return cls(topic.id, topic.generation)


class UnfinishedPublications:
    """The ranges of all write pointers in use."""

    def __init__(self, wake: Callable[[TopicId], None], wake_all: Callable[[], None]) -> None:
        """Wake the readers of a topic with `wake`, all readers with `wake_all`."""
        self._wake, self.wake_all = wake, wake_all
        self._by_pointer: dict[int, dict[Generation, list[KeyRange]]] = {}
        self._references: dict[int, dict[Generation, bytes]] = {}
        """The first reference under each pointer, rolled back or not."""
        self._stored: dict[int, dict[Generation, bytes]] = {}
        """The first key in the Payload table under each pointer."""
        self._noted: Counter[TopicId] = Counter()
        """The number of entries of each topic in these dictionaries."""
        self._rolling_back: dict[int, set[tuple[TopicId, KeyRange]]] = {}
        """The ranges of which a part was rolled back, and the rest possibly not."""

    def __len__(self) -> int:
        return len(self._by_pointer)

    def published(
        self, write_pointer: int, topic: TopicMetadata, first: bytes, last: bytes
    ) -> None:
        """Record that entries from key `first` to `last` are under `write_pointer`."""
        generations = self._by_pointer.setdefault(write_pointer, {})
        generation = Generation.of(topic)
        ranges = generations.get(generation)
        if ranges is None:
            ranges = generations[generation] = []
            self._noted[topic.id] += 1
        ranges.append((first, last))
        if len(ranges) > _RANGES_MAX:
            generations[generation] = [(ranges[0][0], last)]

    def referred(self, write_pointer: int, topic: TopicMetadata, key: bytes) -> None:
        """Record that the entry at `key` refers to the messages stored under `write_pointer`."""
        self._note_first(self._references, write_pointer, topic, key)

    def stored(self, write_pointer: int, topic: TopicMetadata, key: bytes) -> None:
        """Record that a message is stored under `write_pointer`, at `key` in its run."""
        self._note_first(self._stored, write_pointer, topic, key)

    def _note_first(
        self,
        noted: dict[int, dict[Generation, bytes]],
        write_pointer: int,
        topic: TopicMetadata,
        key: bytes,
    ) -> None:
        generations = noted.setdefault(write_pointer, {})
        generation = Generation.of(topic)
        if generation not in generations:
            generations[generation] = key
            self._noted[topic.id] += 1

    def is_noted(self, topic_id: TopicId) -> bool:
        """Whether anything is recorded for a topic, in any generation."""
        return topic_id in self._noted

    def first_keys(self, write_pointers: Iterable[int]) -> dict[Generation, bytes]:
        """Return the first key under any of the pointers that was not rolled back."""
        return _least(
            (generation, ranges[0][0])
            for pointer in write_pointers
            for generation, ranges in self._by_pointer.get(pointer, {}).items()
        )

    def first_references(self, write_pointers: Iterable[int]) -> dict[Generation, bytes]:
        """Return the first key of a reference under any of the pointers."""
        return _least(
            reference
            for pointer in write_pointers
            for reference in self._references.get(pointer, {}).items()
        )

    def first_stored(self, generation: Generation) -> dict[int, bytes]:
        """Return the first key that a generation has in the Payload table, by write pointer."""
        keys = ((pointer, noted.get(generation)) for pointer, noted in self._stored.items())
        return {pointer: key for pointer, key in keys if key is not None}

    def rolling_back(
        self, write_pointer: int, topic: TopicMetadata, first: bytes, last: bytes
    ) -> None:
        """Record that a part of the range from key `first` to `last` is rolled back."""
        self._rolling_back.setdefault(write_pointer, set()).add((topic.id, (first, last)))

    def are_half_rolled_back(self, write_pointers: Iterable[int]) -> bool:
        """Whether a rollback under one of the pointers has begun and not ended."""
        return any(pointer in self._rolling_back for pointer in write_pointers)

    def rolled_back(self, write_pointer: int, topic_id: TopicId, first: bytes, last: bytes) -> None:
        """Record that the range from key `first` to `last` was rolled back.

        In all generations: nobody reads earlier ones, and keys are not used again.
        """
        half = self._rolling_back.pop(write_pointer, set())
        others = {each for each in half if each[0] != topic_id or not _is_in(each[1], first, last)}
        if others:
            self._rolling_back[write_pointer] = others
        generations = self._by_pointer.get(write_pointer, {})
        for generation in [
            generation for generation in generations if generation.topic_id == topic_id
        ]:
            ranges = generations.pop(generation)
            remaining = [each for each in ranges if not _is_in(each, first, last)]
            if remaining:
                generations[generation] = remaining
            else:
                self._forget_one(topic_id)

    def ranges(self, write_pointer: int) -> dict[Generation, list[KeyRange]]:
        """Return the ranges under a pointer that were not rolled back."""
        generations = self._by_pointer.get(write_pointer, {})
        return {generation: list(ranges) for generation, ranges in generations.items()}

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

    def forget(self, write_pointers: Iterable[int]) -> None:
        """Forget everything under the pointers."""
        for pointer in write_pointers:
            self._rolling_back.pop(pointer, None)
            for noted in (self._by_pointer, self._references, self._stored):
                for generation in noted.pop(pointer, ()):
                    self._forget_one(generation.topic_id)

    def forget_all_but(self, is_kept: Callable[[int], bool]) -> None:
        """Forget everything under pointers for which `is_kept` is false."""
        noted = self._by_pointer.keys() | self._references.keys() | self._stored.keys()
        self.forget([pointer for pointer in noted if not is_kept(pointer)])

    def _forget_one(self, topic_id: TopicId) -> None:
        self._noted[topic_id] -= 1
        if not self._noted[topic_id]:
            del self._noted[topic_id]

    def _topic_ids(self, write_pointers: Iterable[int]) -> set[TopicId]:
        return {
            generation.topic_id
            for pointer in write_pointers
            for generation in self._by_pointer.get(pointer, ())
        }


def _is_in(keys: KeyRange, first: bytes, last: bytes) -> bool:
    return first <= keys[0] <= keys[1] <= last


def _least(keys: Iterable[tuple[Generation, bytes]]) -> dict[Generation, bytes]:
    least: dict[Generation, bytes] = {}
    for generation, key in keys:
        if key < least.get(generation, LAST_ID):
            least[generation] = key
    return least
