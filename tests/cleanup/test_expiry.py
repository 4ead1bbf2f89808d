"""A pass leaves exactly the rows that the policy keeps, and those that keep ids ascending."""

import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup.cleaner import Cleaner
from tables.keys import payload_prefix, prefix
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.metadata_table import StoreMetadataTable
from tables.store import GROUP, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, Store
from tests.cleanup.expiring_rows import (
    LIMITS,
    NAMES,
    NOW_MS,
    TTL_S,
    Rows,
    all_rows,
    kept_messages,
    kept_payloads,
    put,
    tables,
)
from tests.cleanup.nobody import NoServices
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tms.core.values.message import KEY
from tms.core.values.store_features import GROUPS
from tms.core.values.topic import TopicId, TopicMetadata

MINUTE_MS = 60_000


def run_pass(store: Store, clock: ManualClock) -> None:
    for _ in Cleaner(store, NoServices(), LIMITS, clock).steps():
        pass


@settings(max_examples=scaled(300))
@given(tables())
def test_a_pass_leaves_what_the_policy_keeps(found: tuple[dict[str, int], Rows, Rows]) -> None:
    store = MemoryStore()
    topics, messages, payloads = found
    put(store, topics, messages, payloads)
    run_pass(store, ManualClock(NOW_MS))

    assert set(all_rows(store, MESSAGE)) == kept_messages(topics, messages)
    assert set(all_rows(store, PAYLOAD)) == kept_payloads(topics, payloads)


@settings(max_examples=scaled(100))
@given(tables(), st.lists(st.integers(0, 6), max_size=5))
def test_passes_interrupted_come_to_the_same(
    found: tuple[dict[str, int], Rows, Rows], lengths: list[int]
) -> None:
    store = MemoryStore()
    put(store, *found)
    for length in lengths:
        steps = Cleaner(store, NoServices(), LIMITS, ManualClock(NOW_MS)).steps()
        for _, _ in zip(range(length), steps, strict=False):
            pass
    run_pass(store, ManualClock(NOW_MS))

    assert set(all_rows(store, MESSAGE)) == kept_messages(found[0], found[1])
    assert set(all_rows(store, PAYLOAD)) == kept_payloads(found[0], found[2])


def test_passes_in_one_process_find_what_expires_between_them() -> None:
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    start = prefix(TopicId("ns", "a"), 1)
    messages = {start + KEY.pack(NOW_MS + n * 1000, 0): b"\0x" for n in range(200)}
    pointer = payload_prefix(start, NOW_MS * 1_000_000)
    payloads = {pointer + KEY.pack(NOW_MS + n * 1000, 0): b"x" for n in range(200)}
    put(store, {"a": 1}, messages, payloads)
    cleaner = Cleaner(store, NoServices(), LIMITS, clock)
    for second in range(1, 300, 7):
        clock.set(NOW_MS + second * 1000)
        for _ in cleaner.steps():
            pass
        left = min(199, max(0, second - TTL_S))
        assert set(all_rows(store, MESSAGE)) == set(sorted(messages)[left:])
        assert set(all_rows(store, PAYLOAD)) == set(sorted(payloads)[left:])


def test_a_shorter_ttl_is_heeded_at_once() -> None:
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    topic_id = TopicId("ns", "a")
    start = prefix(topic_id, 1)
    put(store, {"a": 1}, {start + KEY.pack(NOW_MS - 30_000, n): b"\0x" for n in range(3)}, {})
    cleaner = Cleaner(store, NoServices(), LIMITS, clock)
    assert sum(step.dropped for step in cleaner.steps()) == 0
    metadata = StoreMetadataTable(store)
    assert metadata.replace(metadata.get(topic_id), TopicMetadata(topic_id, 1, 29, {}))

    assert sum(step.dropped for step in cleaner.steps()) == 2


def test_a_topic_with_nothing_due_is_not_looked_at() -> None:
    class Watched(MemoryStore):
        scans = 0

        def scan(self, table: str, start: bytes, stop: bytes, **how: Any) -> Any:
            self.scans += 1
            return super().scan(table, start, stop, **how)

    store, clock = Watched(), ManualClock(NOW_MS)
    put(store, dict.fromkeys(NAMES, 1), {}, {})
    cleaner = Cleaner(store, NoServices(), LIMITS, clock)
    list(cleaner.steps())
    first = store.scans
    clock.advance(59_000)
    list(cleaner.steps())

    assert first > 3
    assert store.scans == first, "not even the metadata, of which none was changed"


@pytest.fixture
def leveldb(tmp_path: Path) -> Iterator[LevelDBStore]:
    store = LevelDBStore(tmp_path, sync=False)
    yield store
    store.close()


@pytest.mark.parametrize("table", [SUBSCRIPTION, GROUP])
def test_positions_and_groups_of_dead_generations_go(leveldb: LevelDBStore, table: str) -> None:
    rows = {prefix(TopicId("ns", "a"), generation) + b"x": b"" for generation in (1, 2)}
    leveldb.add_feature(GROUPS)
    batch = leveldb.batch()
    batch.put_rows(table, rows.items())
    leveldb.write(batch)
    put(leveldb, {"a": 2}, {}, {})
    run_pass(leveldb, ManualClock(NOW_MS))

    assert list(all_rows(leveldb, table)) == sorted(rows)[1:]


class TestDeletedTopics:
    def test_the_row_goes_when_nothing_of_it_is_left(self) -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        start = prefix(TopicId("ns", "a"), 2)
        put(store, {"a": -2}, {start + KEY.pack(NOW_MS - 1, n): b"\0x" for n in range(5)}, {})
        services = NoServices(store)
        cleaner = Cleaner(store, services, LIMITS, clock)
        list(cleaner.steps())
        assert len(all_rows(store, MESSAGE)) == 1, "the greatest"
        clock.advance(LIMITS.cleanup_grace_s * 1000 - 2)
        list(cleaner.steps())
        assert len(all_rows(store, METADATA)) == 1
        clock.advance(MINUTE_MS)
        list(cleaner.steps())

        assert all_rows(store, MESSAGE) == all_rows(store, METADATA) == {}

    def test_those_that_wait_cost_a_number_each(self) -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        count = scaled(5_000)
        topics = {f"t{number}": -1 for number in range(count)}
        keys = (prefix(TopicId("ns", name), 1) + KEY.pack(NOW_MS - 1, 0) for name in topics)
        put(store, topics, dict.fromkeys(keys, b"\0x"), {})
        cleaner = Cleaner(store, NoServices(store), LIMITS, clock)
        for waits_for in ("its minute", "its day"):
            tracemalloc.start()
            list(cleaner.steps())
            size = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert size < 150 * count + 20_000, waits_for
            assert len(cleaner._topics) == count
            clock.advance(60_000)
        looked_at = [step for step in cleaner.steps() if step.table != METADATA]
        assert looked_at == []
        clock.advance(LIMITS.cleanup_grace_s * 1000)
        list(cleaner.steps())

        assert all_rows(store, MESSAGE) == all_rows(store, METADATA) == {}

    def test_one_that_waits_is_created_again(self) -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        old = prefix(TopicId("ns", "a"), 1) + KEY.pack(NOW_MS - 1, 0)
        put(store, {"a": -1}, {old: b"\0x"}, {})
        cleaner = Cleaner(store, NoServices(store), LIMITS, clock)
        for _ in range(2):
            list(cleaner.steps())
            clock.advance(60_000)
        assert len(cleaner._topics) == 1
        deleted, again = (TopicMetadata(TopicId("ns", "a"), n, TTL_S, {}) for n in (-1, 2))
        StoreMetadataTable(store).replace(deleted, again)
        new = prefix(TopicId("ns", "a"), 2) + KEY.pack(NOW_MS, 0)
        batch = store.batch()
        batch.put_rows(MESSAGE, [(new, b"\0x")])
        store.write(batch)
        list(cleaner.steps())

        assert list(all_rows(store, MESSAGE)) == [new]

    def test_not_at_once_where_it_never_had_a_message(self) -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        put(store, {"a": -1}, {}, {})
        cleaner = Cleaner(store, NoServices(store), LIMITS, clock)
        list(cleaner.steps())
        clock.advance(59_999)
        list(cleaner.steps())
        assert len(all_rows(store, METADATA)) == 1
        clock.advance(1)
        list(cleaner.steps())

        assert all_rows(store, METADATA) == {}


def test_damaged_keys_stop_one_topic_alone(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    put(store, {"a": 1, "b": 1}, {}, {})
    batch = store.batch()
    batch.put(PAYLOAD, prefix(TopicId("ns", "a"), 1) + struct.pack(">q", 2**62), b"")
    expired = [prefix(TopicId("ns", "b"), 1) + KEY.pack(1, n) for n in range(3)]
    batch.put_rows(MESSAGE, [(key, b"\0x") for key in expired])
    store.write(batch)
    run_pass(store, ManualClock(NOW_MS))

    assert list(all_rows(store, MESSAGE)) == expired[2:]
    assert "cannot clean up the topic ns:a" in caplog.text
