"""A pass reads no metadata rows of topics if none has changed since the last pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cleanup.cleaner import Cleaner
from cleanup.topics import _ROWS, KnownTopics
from tables.keys import prefix
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE, METADATA
from tests.cleanup.nobody import NoServices
from tests.manual_clock import ManualClock
from tms.core.limits import MS_PER_S, Limits
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
LIMITS = Limits()


class CountsScans:
    """Counts the scans of the Metadata table."""

    scans = 0

    def scan(self, table: str, *keys: bytes, **options: Any) -> Any:
        self.scans += table == METADATA
        return super().scan(table, *keys, **options)  # type: ignore[misc]


class CountingStore(CountsScans, MemoryStore):
    """A store in memory."""


class PausedStore(CountsScans, LevelDBStore):
    """Calls a function once in the middle of a write."""

    meanwhile: Callable[[], object] | None = None

    def _write(self, writes: Any) -> None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        super()._write(writes)


def test_rows_are_read_again_when_one_changed_or_waits_no_more() -> None:
    store, clock = CountingStore(), ManualClock(NOW_MS)
    metadata = StoreMetadataTable(store)
    deleted, live = TopicId("ns", "deleted"), TopicId("ns", "live")
    metadata.replace(None, TopicMetadata(deleted, -1, 60, {}))
    metadata.replace(None, TopicMetadata(live, 1, 60, {}))
    batch = store.batch()
    batch.put_rows(MESSAGE, [(prefix(deleted, 1) + KEY.pack(NOW_MS, 0), b"\0x")])
    store.write(batch)
    cleaner = Cleaner(store, NoServices(store), LIMITS, clock)

    def scans(after_ms: int = MINUTE_MS + 1_000) -> int:
        clock.advance(after_ms)
        before = store.scans
        for _ in cleaner.steps():
            pass
        return store.scans - before

    assert [scans() for _ in range(4)] == [1, 1, 0, 0], "it is emptied twice"
    old = metadata.get(live)
    assert old is not None
    metadata.replace(old, old.changed(60, {"note": "x"}, NOW_MS))
    assert [scans(), scans()] == [1, 0]
    assert scans(LIMITS.cleanup_grace_s * MS_PER_S + 2 * MINUTE_MS) == 1
    assert metadata.get(deleted) is None, "it waited no more, and is forgotten"
    assert scans() == 0, "cleanup knows what it deleted"


def test_a_row_that_changes_while_a_pass_reads_it_is_read_again(tmp_path: Path) -> None:
    """Otherwise a pass would use the old ttl, and delete messages that a longer one keeps."""
    store, clock = PausedStore(tmp_path), ManualClock(NOW_MS)
    metadata, live = StoreMetadataTable(store), TopicId("ns", "live")
    metadata.replace(None, TopicMetadata(live, 1, 60, {}))
    topics = KnownTopics(store, clock, lambda read: read())

    def known_ttl_s() -> list[int]:
        return [each.topic.ttl_s for page in topics.pages() for each in page]

    assert known_ttl_s() == [60]
    old = metadata.get(live)
    assert old is not None
    store.meanwhile = known_ttl_s
    metadata.replace(old, old.changed(3600, {}, NOW_MS))
    assert known_ttl_s() == [3600]
    store.close()


def test_topics_are_counted_when_the_first_pass_meets_them() -> None:
    """A pass may take minutes, during which memory would grow unnoticed."""
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    metadata = StoreMetadataTable(store)
    for number in range(_ROWS + 3):
        metadata.replace(None, TopicMetadata(TopicId("ns", f"t{number}"), 1, 60, {}))
    topics = KnownTopics(store, clock, lambda read: read())

    assert [len(topics) for _ in topics.pages()] == [_ROWS, _ROWS + 3]
    assert len(topics) == _ROWS + 3
    assert [len(topics) for _ in topics.pages()] == [_ROWS + 3] * 2


def test_a_topic_deleted_during_a_long_pass_is_not_old_when_the_pass_comes_to_it() -> None:
    """Requests in progress when it was deleted may still arrive."""
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    metadata = StoreMetadataTable(store)
    for number in range(_ROWS):
        metadata.replace(None, TopicMetadata(TopicId("ns", f"t{number}"), 1, 60, {}))
    pages = KnownTopics(store, clock, lambda read: read()).pages()
    next(pages)
    clock.advance(10 * MINUTE_MS)
    metadata.replace(None, TopicMetadata(TopicId("ns", "z"), -1, 60, {}))
    [deleted] = next(pages)

    assert deleted.since_ms == clock.steady_ms()
