"""The cached topics of the workers, cut at the boundaries of regions.

The cache is read again on a period of its own, so that a region does not cost a scan of all topics.
Deletions check that the topic's row is unchanged (`cleanup.hbase.drops`).

A server may be raising a ttl, as of a time that it took before the row was read, and from another
clock. So expiry is decided as of an earlier time.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from threading import Lock

from cleanup.topics import KnownTopics, RememberedTopic
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
    """Return by how many ms the time of expiry precedes the reading of a topic's row."""
    return int(store.timeout_s * MS_PER_S) + _CLOCKS_DIFFER_MS


@dataclass(frozen=True, slots=True)
class RegionPart:
    """The part of a topic in a region: its keys with start <= key < stop."""

    region: Region
    """The same range as rows, never beyond the topic's."""
    remembered: RememberedTopic
    start: bytes
    stop: bytes
    is_first: bool
    """Whether this is the topic's first part."""


class CachedTopics:
    """All topics of a store in the order of their rows in HBase, for many threads."""

    def __init__(self, store: HBaseStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cached = KnownTopics(store, clock, lambda read: read(), behind_ms(store))
        self._lock = Lock()
        self._topics: list[tuple[bytes, bytes, RememberedTopic]] = []
        """The first row, the row after the last, and the topic."""
        self._read_ms: int | None = None

    def refresh(self) -> None:
        """Read the topics again. Raises `StoreCorrupt`, `StoreUnavailable`."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        now_ms = self._clock.steady_ms()
        ranges = []
        for remembered in chain.from_iterable(self._cached.pages()):
            key = metadata_key(remembered.topic.id)
            start = self._store.row_of(MESSAGE, key)
            ranges.append((start, start[:1] + after_prefix(key), remembered))
        self._topics = sorted(ranges, key=lambda each: each[0])
        self._read_ms = now_ms

    def existing(self) -> list[TopicMetadata]:
        """Return the existing topics as they are now. Raises as `refresh` does."""
        self.refresh()
        return [remembered.topic for _, _, remembered in self._topics if remembered.topic.exists]

    def parts(self, region: Region) -> Iterator[RegionPart]:
        """Yield the parts of a region's topics, in row order. Raises as `refresh` does."""
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
        first, end, remembered = topics[index]
        start, stop = max(first, row), min(end, region.stop)
        own = Region(region.table, start, stop)
        return RegionPart(own, remembered, start[1:], stop[1:], start == first)
