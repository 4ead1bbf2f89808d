"""Many deleted topics are cleaned up together, with as many calls as one topic."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cleanup.cleaner import Cleaner
from tables.keys import prefix
from tables.memory import MemoryStore
from tables.metadata_table import StoreMetadataTable
from tables.store import ALL_TABLES, GROUP, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, Row
from tables.store import Store as StoreProtocol
from tests.cleanup.nobody import NoServices
from tests.manual_clock import ManualClock
from tms.core.errors import StoreCorrupt
from tms.core.limits import MS_PER_S, Limits
from tms.core.values.batch import Batch
from tms.core.values.message import KEY
from tms.core.values.store_features import GROUPS
from tms.core.values.topic import TopicId, TopicMetadata

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
LIMITS = Limits(cleanup_slice_rows=100_000, cleanup_slice_ms=60_000)
"""Large enough that steps do not end early because of their duration."""


class CountingStore(MemoryStore):
    """Counts scans and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.damaged = b"\xff"
        """A key that cannot be read."""

    @contextmanager
    def scan(self, table: str, *keys: bytes, **options: Any) -> Iterator[Iterator[Row]]:
        self.calls["scan"] += 1
        with super().scan(table, *keys, **options) as rows:
            yield (self._read(row) for row in rows)

    def _read(self, row: Row) -> Row:
        if row[0] == self.damaged:
            raise StoreCorrupt(key=row[0].hex())
        return row

    def write(self, batch: Batch) -> None:
        self.calls["write"] += 1
        super().write(batch)


class CountingServices(NoServices):
    """Counts calls about deleted topics; keeps `held` of the topics."""

    def __init__(self, store: StoreProtocol) -> None:
        super().__init__(store)
        self.calls: Counter[str] = Counter()
        self.held: set[TopicId] = set()

    def keep_keys_from(self, floor_ms: int) -> None:
        self.calls["keep_keys_from"] += 1

    def forget(self, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        self.calls["forget"] += 1
        return super().forget([topic for topic in topics if topic.id not in self.held])


class World:
    """A store of deleted topics with rows in all tables, and its cleaner."""

    def __init__(self, count: int) -> None:
        self.store, self.clock = CountingStore(), ManualClock(NOW_MS)
        self.store.add_feature(GROUPS)
        self.services = CountingServices(self.store)
        self.cleaner = Cleaner(self.store, self.services, LIMITS, self.clock)
        self.ids = [TopicId("ns", f"t{number:03}") for number in range(count)]
        for topic_id in self.ids:
            self.put(topic_id, -1)

    def put(self, topic_id: TopicId, generation: int, old: int | None = None) -> None:
        """Put a topic with rows of its generation and of the one before."""
        before = None if old is None else TopicMetadata(topic_id, old, 60, {})
        new = TopicMetadata(topic_id, generation, 60, {})
        assert StoreMetadataTable(self.store).replace(before, new)
        batch = self.store.batch()
        start = prefix(topic_id, abs(generation))
        batch.put_rows(MESSAGE, [(start + KEY.pack(NOW_MS, number), b"\0x") for number in range(3)])
        for table in (PAYLOAD, SUBSCRIPTION, GROUP):
            batch.put_rows(table, [(start + b"\0" * 8 + KEY.pack(NOW_MS, 0), b"x")])
        self.store.write(batch)

    def clean(self) -> Counter[str]:
        """Do a pass; return how many calls of each kind it made."""
        self.store.calls.clear()
        self.services.calls.clear()
        for _ in self.cleaner.steps():
            pass
        return self.store.calls + self.services.calls

    def rows(self, topic_id: TopicId) -> dict[str, list[bytes]]:
        """Return the row keys of a topic by table, without tables that have none."""
        start = f"{topic_id.namespace}:{topic_id.name}:".encode()
        found = {}
        for table in ALL_TABLES:
            with MemoryStore.scan(self.store, table, start, start[:-1] + b";") as rows:
                found[table] = [key for key, _ in rows]
        return {table: keys for table, keys in found.items() if keys}


@pytest.mark.parametrize("grace_s", [0, LIMITS.cleanup_grace_s])
def test_a_pass_makes_as_few_calls_for_many_as_for_one(grace_s: int) -> None:
    """A topic once took ten store calls and two event loop calls each time that a pass met it."""
    found, remembered = [], []
    for count in (1, 99):
        world = World(count)
        passes = [world.clean()]
        world.clock.advance(MINUTE_MS)
        if not grace_s:
            world.clock.advance(LIMITS.cleanup_grace_s * MS_PER_S)
        passes.append(world.clean())
        if grace_s:
            world.clock.advance(LIMITS.cleanup_grace_s * MS_PER_S)
            passes.append(world.clean())
        found.append(passes)
        remembered.append(world.cleaner.topic_count)
        assert not any(map(world.rows, world.ids))
    one, many = found

    assert many == one
    assert remembered == [0, 0]
    assert many[-1]["forget"] == many[-1]["keep_keys_from"] == 1


def test_what_lives_between_deleted_topics_stays() -> None:
    """Topics created again before or during a pass stay, with or without messages."""
    world = World(7)
    before, during, without = world.ids[1], world.ids[3], world.ids[5]
    world.put(before, 2, -1)
    steps = world.cleaner.steps()
    next(steps)  # the page is read
    world.put(during, 2, -1)
    deleted, again = (TopicMetadata(without, generation, 60, {}) for generation in (-1, 2))
    StoreMetadataTable(world.store).replace(deleted, again)
    for _ in steps:
        pass
    world.clean()

    for topic_id in (before, during):
        found = world.rows(topic_id)
        dead = prefix(topic_id, 1)
        assert not [key for keys in found.values() for key in keys if key.startswith(dead)]
        assert len(found[MESSAGE]) == 3
        assert set(found) == {MESSAGE, PAYLOAD, METADATA, SUBSCRIPTION, GROUP}
    greatest = prefix(without, 1) + KEY.pack(NOW_MS, 2)
    assert world.rows(without)[MESSAGE] == [greatest], "ids continue from it"


def test_damage_keeps_one_topic_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = World(5)
    damaged = world.ids[2]
    world.store.damaged = prefix(damaged, 1) + KEY.pack(NOW_MS, 1)
    for _ in range(2):
        world.clean()
        world.clock.advance(LIMITS.cleanup_grace_s * MS_PER_S)

    assert [topic_id for topic_id in world.ids if world.rows(topic_id)] == [damaged]
    assert f"cannot clean up the topic {damaged}" in caplog.text
    world.store.damaged = b"\xff"
    world.clean()
    assert not world.rows(damaged)


def test_one_that_may_not_be_forgotten_is_asked_for_again() -> None:
    """This happens while a transaction that published to the topic is in progress."""
    world = World(3)
    held = world.ids[1]
    world.services.held = {held}
    for _ in range(2):
        world.clean()
        world.clock.advance(LIMITS.cleanup_grace_s * MS_PER_S)
    assert [topic_id for topic_id in world.ids if world.rows(topic_id)] == [held]
    assert world.cleaner.topic_count == 1
    world.clean()
    assert world.clean()["forget"] == 0, "it waits"
    world.services.held = set()
    world.clock.advance(MINUTE_MS)
    world.clean()

    assert not world.rows(held)
    assert world.cleaner.topic_count == 0


def test_one_that_is_deleted_again_after_a_pass_broke_off_waits_again() -> None:
    """Its row equals the one that the pass deleted, whose wait was over."""
    world = World(1)
    [topic_id] = world.ids
    world.clean()
    world.clock.advance(LIMITS.cleanup_grace_s * MS_PER_S)
    steps = world.cleaner.steps()
    while world.rows(topic_id):
        next(steps)
    del steps
    world.put(topic_id, -1)
    world.clean()

    assert METADATA in world.rows(topic_id), "a publish under way may still come"
    assert world.cleaner.topic_count == 1
    world.clock.advance(MINUTE_MS)
    world.clean()
    assert not world.rows(topic_id)
    assert world.cleaner.topic_count == 0
