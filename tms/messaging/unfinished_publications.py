"""The messages that open transactions have published and stored, as far as this process knows.

It answers five questions: where a transaction has published, for those who look after the server;
whether all of that was rolled back, without which an abort would make it visible; whether a part of
a range was rolled back and the rest not yet, without which a commit would show that rest; whose
readers to wake when it ends; and from when on a topic has what it has stored, which a bound must
leave. All is noted when it joins a flush, so what a flush has done before is known within it. What
then fails stays noted: it may be in the table.

Fulfils `tms.core.services.transactions.Publications`. Used from the event loop's thread alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tms.core.values.message import LAST_ID
from tms.core.values.topic import TopicId, TopicMetadata

_RANGES_MAX = 1_000
"""Ranges kept of one write pointer and topic; beyond, they become one, which a rollback of its
parts does not clear: then an abort leaves the transaction invalid, which is safe."""

KeyRange = tuple[bytes, bytes]
"""First and last key, inclusive."""


class Generation(NamedTuple):
    """One life of a topic: what is published to it is nothing to the next."""

    topic_id: TopicId
    number: int

    @classmethod
    def of(cls, topic: TopicMetadata) -> "Generation":
        """Return the generation of a topic that exists."""
        return cls(topic.id, topic.generation)


class UnfinishedPublications:
    """The ranges of all write pointers in use."""

    def __init__(self, wake: Callable[[TopicId], None], wake_all: Callable[[], None]) -> None:
        """Have the readers of a topic woken by `wake`, those of all by `wake_all`."""
        self._wake, self.wake_all = wake, wake_all
        self._by_pointer: dict[int, dict[Generation, list[KeyRange]]] = {}
        self._references: dict[int, dict[Generation, bytes]] = {}
        """The first reference under each pointer, rolled back or not."""
        self._stored: dict[int, dict[Generation, bytes]] = {}
        """The first key in the Payload table under each pointer."""
        self._noted: Counter[TopicId] = Counter()
        """In how many of these dictionaries a topic is."""
        self._rolling_back: dict[int, set[tuple[TopicId, KeyRange]]] = {}
        """The ranges of which a part was rolled back, and the rest perhaps not."""

    def __len__(self) -> int:
        return len(self._by_pointer)

    def published(
        self, write_pointer: int, topic: TopicMetadata, first: bytes, last: bytes
    ) -> None:
        """Note that entries from key `first` to `last` are under `write_pointer`."""
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
        """Note that the entry at `key` refers to what is stored under `write_pointer`."""
        self._note_first(self._references, write_pointer, topic, key)

    def stored(self, write_pointer: int, topic: TopicMetadata, key: bytes) -> None:
        """Note that a message is stored under `write_pointer`, at `key` in its run."""
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
        """Whether anything is noted of a topic, in whichever generation."""
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
        found = ((pointer, noted.get(generation)) for pointer, noted in self._stored.items())
        return {pointer: key for pointer, key in found if key is not None}

    def rolling_back(
        self, write_pointer: int, topic: TopicMetadata, first: bytes, last: bytes
    ) -> None:
        """Note that a part of what is between the keys `first` and `last` is rolled back."""
        self._rolling_back.setdefault(write_pointer, set()).add((topic.id, (first, last)))

    def are_half_rolled_back(self, write_pointers: Iterable[int]) -> bool:
        """Whether a rollback under one of the pointers has begun, and not come to its end."""
        return any(pointer in self._rolling_back for pointer in write_pointers)

    def rolled_back(self, write_pointer: int, topic_id: TopicId, first: bytes, last: bytes) -> None:
        """Note that what is between the keys `first` and `last` was rolled back.

        In all generations: nobody reads those before, and keys do not come back.
        """
        half = self._rolling_back.pop(write_pointer, set())
        others = {each for each in half if each[0] != topic_id or not _is_in(each[1], first, last)}
        if others:
            self._rolling_back[write_pointer] = others
        generations = self._by_pointer.get(write_pointer, {})
        for generation in [each for each in generations if each.topic_id == topic_id]:
            ranges = generations.pop(generation)
            left = [each for each in ranges if not _is_in(each, first, last)]
            if left:
                generations[generation] = left
            else:
                self._forget_one(topic_id)

    def ranges(self, write_pointer: int) -> dict[Generation, list[KeyRange]]:
        """Return what is under a pointer and was not rolled back."""
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
        """Forget what is under the pointers."""
        for pointer in write_pointers:
            self._rolling_back.pop(pointer, None)
            for noted in (self._by_pointer, self._references, self._stored):
                for generation in noted.pop(pointer, ()):
                    self._forget_one(generation.topic_id)

    def forget_all_but(self, is_kept: Callable[[int], bool]) -> None:
        """Forget what is under all pointers of which `is_kept` is not true."""
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
