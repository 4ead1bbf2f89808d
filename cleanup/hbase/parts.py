"""The topics as the workers of regions have them: cached, and cut where regions are.

The cache is read anew on a period of its own, so that a region does not cost a scan of all topics.
What is deleted by it is checked against the topic's row as that is now (`cleanup.hbase.drops`).

A server may be about to raise a ttl, by a time that it took before the row was read, and by another
clock. So what has expired is decided as of a time so much before.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from threading import Lock

from cleanup.topics import Known, KnownTopics
from tables.hbase.regions import Region
from tables.hbase.store import HBaseStore
from tables.keys import after_prefix, metadata_key
from tables.store import MESSAGE
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.core.values.topic import TopicMetadata

_PERIOD_MS = 60_000
_CLOCKS_DIFFER_MS = 5_000


def behind_ms(store: HBaseStore) -> int:
    """Return how long before a topic's row was read what has expired is decided."""
    return int(store.timeout_s * MS_PER_S) + _CLOCKS_DIFFER_MS


@dataclass(frozen=True, slots=True)
class RegionPart:
    """The part of a topic in a region: its keys with start <= key < stop."""

    region: Region
    """The same as rows: never more than the topic's."""
    known: Known
    start: bytes
    stop: bytes
    is_first: bool
    """Whether the topic begins here."""


class CachedTopics:
    """All topics of a store in the order of their rows in HBase, for many threads."""

    def __init__(self, store: HBaseStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known = KnownTopics(store, clock, lambda read: read(), behind_ms(store))
        self._lock = Lock()
        self._topics: list[tuple[bytes, bytes, Known]] = []
        """First row, the row behind the last, and the topic."""
        self._read_ms: int | None = None

    def refresh(self) -> None:
        """Read the topics anew. Raises `StoreCorrupt`, `StoreUnavailable`."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        now_ms = self._clock.steady_ms()
        found = []
        for known in chain.from_iterable(self._known.pages()):
            key = metadata_key(known.topic.id)
            start = self._store.row_of(MESSAGE, key)
            found.append((start, start[:1] + after_prefix(key), known))
        self._topics = sorted(found, key=lambda each: each[0])
        self._read_ms = now_ms

    def existing(self) -> list[TopicMetadata]:
        """Return the topics that exist, as they are now. Raises as `refresh`."""
        self.refresh()
        return [known.topic for _, _, known in self._topics if known.topic.exists]

    def parts(self, region: Region) -> Iterator[RegionPart]:
        """Give the parts of a region's topics in the order of their rows. Raises as `refresh`."""
        row: bytes | None = region.start
        while row is not None and (part := self._part_from(region, row)) is not None:
            yield part
            row = part.region.stop

    def _part_from(self, region: Region, row: bytes) -> RegionPart | None:
        """Return the first part from `row` on."""
        with self._lock:
            now_ms = self._clock.steady_ms()
            if self._read_ms is None or now_ms - self._read_ms >= _PERIOD_MS:
                self._refresh()
            topics = self._topics
        index = bisect_right(topics, row, key=lambda each: each[0]) - 1
        if index < 0 or topics[index][1] <= row:
            index += 1
        if index == len(topics) or max(topics[index][0], row) >= region.stop:
            return None
        first, end, known = topics[index]
        start, stop = max(first, row), min(end, region.stop)
        own = Region(region.table, start, stop)
        return RegionPart(own, known, start[1:], stop[1:], start == first)
