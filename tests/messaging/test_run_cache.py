"""Stored runs in memory: which parts are returned, which are kept, and that none is missing."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.keys import prefix
from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.polled import payloads
from tms.core.limits import WRITE_POINTERS_PER_MS
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import KEY, NO_PAYLOAD_KEY, MessageBlock
from tms.core.values.stored_runs import ReadRun, Reference
from tms.messaging.cache import CacheBudget, TopicCache
from tms.messaging.service import Service

pytestmark = pytest.mark.anyio
POINTER = NOW_MS * WRITE_POINTERS_PER_MS
START = prefix(TOPIC, 1)
KEYS = st.integers(1, 400).map(lambda number: KEY.pack(number, 0))


def run(pointer: int, size: int = 10, *, next_key: bytes | None = None) -> ReadRun:
    key = KEY.pack(pointer, 0)
    return ReadRun(key, pointer, NO_PAYLOAD_KEY, MessageBlock(1, bytes(size)), next_key)


def is_here(cache: TopicCache, pointer: int) -> bool:
    return cache.runs.get(Reference(KEY.pack(pointer, 0), pointer, NO_PAYLOAD_KEY)) is not None


@given(
    stored=st.lists(
        st.tuples(st.integers(1, 9), KEYS, st.binary(max_size=300), st.none() | st.just(b"k")),
        max_size=300,
        unique_by=lambda row: row[:2],
    ),
    wanted=st.sets(st.integers(1, 9), min_size=1),
    first_key=KEYS,
    limit=st.integers(1, 200),
    bytes_max=st.integers(1, 5_000),
)
def test_runs_read_together_have_what_each_has_alone(
    stored: list[tuple[int, bytes, bytes, bytes | None]],
    wanted: set[int],
    first_key: bytes,
    limit: int,
    bytes_max: int,
) -> None:
    tables = StoreTables(MemoryStore())
    batch = tables.batch()
    for pointer, key, payload, own_key in stored:
        [body] = bodies_of([encode_body(payload, own_key, {})])
        tables.payloads.append(batch, START, pointer, [key], [body])
    tables.write(batch)
    references = [Reference(KEY.pack(1_000 - each, 0), each, first_key) for each in sorted(wanted)]

    runs = tables.payloads.read_runs(START, references, limit=limit, bytes_max=bytes_max)

    assert 1 <= len(runs) <= len(references)
    assert len(runs) == len(references) or sum(each.block.count for each in runs) > 0
    assert all(each.next_key is None for each in runs[:-1])
    assert sum(each.block.count for each in runs) <= limit
    for read, reference in zip(runs, references, strict=False):
        whole, _ = tables.payloads.read(
            START,
            reference.write_pointer,
            reference.message_key,
            first_key,
            limit=1_000,
            bytes_max=1_000_000,
        )
        assert list(read.block) == list(whole)[: read.block.count]
        assert (read.next_key is None) == (read.block.count == whole.count)


@given(
    times=st.sets(st.integers(1, 300), max_size=60),
    first=st.integers(0, 310),
    limit=st.integers(1, 70),
    bytes_max=st.integers(1, 2_000),
)
def test_parts_of_a_run_follow_one_another(
    times: set[int], first: int, limit: int, bytes_max: int
) -> None:
    tables = StoreTables(MemoryStore())
    batch = tables.batch()
    keys = [KEY.pack(each, 0) for each in sorted(times)]
    tables.payloads.append(batch, START, POINTER, keys, [b"x" * each for each in range(len(keys))])
    tables.write(batch)
    reference = Reference(KEY.pack(1, 0), POINTER, NO_PAYLOAD_KEY)
    [whole] = tables.payloads.read_runs(START, [reference], limit=1_000, bytes_max=1_000_000)

    found = []
    at: bytes | None = KEY.pack(first, 0)
    while at is not None:
        block, at = whole.part(at, limit=limit, bytes_max=bytes_max)
        messages = list(block)
        assert len(messages) <= limit
        assert at is None or messages
        assert sum(len(each.payload) for each in messages[:-1]) < bytes_max
        found += messages
    assert found == [each for each in whole.block if each.id[10:] >= KEY.pack(first, 0)]
    assert all(low.id < high.id for low, high in pairwise(found))


def test_runs_have_a_part_of_the_budget_and_the_unused_go_first() -> None:
    budget = CacheBudget(40_000)
    cache, other = (TopicCache(budget, NO_PAYLOAD_KEY) for _ in range(2))
    for pointer in range(1, 4):
        cache.runs.put(run(pointer, 2_000), 0)
    assert is_here(cache, 1)
    other.runs.put(run(1, 2_000), 0)
    assert [is_here(cache, pointer) for pointer in (1, 2, 3)] == [True, False, True]
    assert 6_000 < budget.used_bytes < 10_000
    other.runs.put(run(2, 10_000), 0)
    assert not is_here(other, 2)
    cache.retire()
    other.retire()
    assert budget.used_bytes == 0


def test_what_may_lack_something_is_not_kept() -> None:
    cache = TopicCache(CacheBudget(40_000), NO_PAYLOAD_KEY)
    seen = cache.runs.changes
    cache.runs.put(run(1, next_key=KEY.pack(9, 0)), seen)
    cache.runs.put(run(-2), seen)
    cache.runs.put(run(3), seen)
    cache.runs.stored(4)
    cache.runs.put(run(5), seen)
    assert [is_here(cache, pointer) for pointer in (1, -2, 3, 5)] == [False, False, True, False]
    cache.restart(NO_PAYLOAD_KEY)
    assert not is_here(cache, 3)
    cache.retire()
    cache.runs.put(run(6), cache.runs.changes)
    assert not is_here(cache, 6)


async def test_the_ttl_holds_for_what_is_in_memory(service: Service, clock: ManualClock) -> None:
    await service.store(TOPIC, [b"old"], POINTER)
    clock.advance(6_000)
    await service.store(TOPIC, [b"young"], POINTER)
    await service.publish(TOPIC, [], POINTER)
    assert await payloads(service) == [b"old", b"young"]
    await service.update_topic(TOPIC, {"ttl": 10})
    clock.advance(6_000)
    assert await payloads(service) == [b"young"]
