"""Splits of a topic cover the range, and are about equal wherever the messages are."""

import asyncio
import random
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import WAIT_S_MAX
from tms.core.errors import InvalidRequest, TopicNotFound
from tms.core.limits import Limits
from tms.core.services.commits import CommitRequest, Stored
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID, LAST_ID
from tms.core.values.ranges import Split
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.messaging.ranges.splits import _grouped, _Placed
from tms.server.node import OpenServices, open_services
from tms.settings import Settings

pytestmark = pytest.mark.anyio

TOPIC = TopicId("default", "t")
WITHOUT_CACHE = Limits(cache_bytes_max=1)
SMALL_BUFFER = Settings.model_construct(leveldb_write_buffer_bytes=256 * 1024)


async def count(services: OpenServices, split: Split) -> int:
    blocks = services.messaging.poll(TOPIC, Reading(split.start, limit=1_000_000, end=split.end))
    return sum([block.count async for block in blocks])


async def splits(
    services: OpenServices, parts: int, start: bytes = FIRST_ID, end: bytes | None = None
) -> Sequence[Split]:
    """Return splits after checking that they cover the range."""
    if end is None:
        known = (await services.ranges.ranges([TOPIC])).topics[TOPIC]
        assert known is not None
        end = known.end
    found = await services.ranges.splits(TOPIC, start, end, parts)
    assert 1 <= len(found) <= parts
    assert (found[0].start, found[-1].end) == (start, end)
    assert all(one.end == two.start for one, two in pairwise(found))
    assert all(split.start < split.end for split in found) or start == end
    return found


async def publish(services: OpenServices, messages: int, payload_bytes: int = 100) -> None:
    """Publish random bytes, which no store can compress."""
    for _ in range(messages // 1000):
        payloads = [random.randbytes(payload_bytes) for _ in range(1000)]
        await services.messaging.publish(TOPIC, payloads)


async def store(services: OpenServices, tasks: int, messages: int) -> None:
    """Publish messages stored by several tasks, an equal number by each."""
    transaction = await services.transactions.start(StartRequest())
    pointers = []
    for _ in range(tasks):
        taken = await services.transactions.checkpoint(transaction.transaction_id)
        pointers.append(taken.write_pointer)
        for _ in range(messages // 1000):
            payloads = [random.randbytes(100) for _ in range(1000)]
            await services.messaging.store(TOPIC, payloads, taken.write_pointer)
    stored = [Stored(TOPIC, pointer) for pointer in pointers]
    await services.transactions.commit(transaction.transaction_id, CommitRequest(publish=stored))


async def is_about_equal(services: OpenServices, found: Sequence[Split], parts: int) -> None:
    counts = [await count(services, split) for split in found]
    assert len(found) == parts
    assert max(counts) <= 2.2 * sum(counts) / parts, counts


@pytest.mark.parametrize("url", ["memory:", "leveldb:"])
async def test_what_is_in_memory_is_split_by_the_cache(url: str, tmp_path: Path) -> None:
    services = await open_services(url if url == "memory:" else f"{url}{tmp_path}/data")
    try:
        await services.messaging.create_topic(TOPIC)
        assert len(await splits(services, 4)) == 1
        await publish(services, 20_000)
        await is_about_equal(services, await splits(services, 4), 4)
        end = (await splits(services, 2))[0].end
        await is_about_equal(services, await splits(services, 2, end=end), 2)
    finally:
        await services.close()


async def test_what_is_on_disk_is_split_by_the_store(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path}/data"
    services = await open_services(url, WITHOUT_CACHE, settings=SMALL_BUFFER)
    try:
        await services.messaging.create_topic(TOPIC)
        await publish(services, 50_000)
    finally:
        await services.close()
    services = await open_services(url, WITHOUT_CACHE, settings=SMALL_BUFFER)
    try:
        for parts in (2, 5, 16):
            await is_about_equal(services, await splits(services, parts), parts)
        found = await splits(services, 1000)
        assert len(found) <= 1000
        assert sum([await count(services, split) for split in found]) == 50_000
    finally:
        await services.close()


@pytest.mark.parametrize("tasks", [1, 3])
async def test_what_was_stored_is_split_within(tasks: int, tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path}/data"
    services = await open_services(url, settings=SMALL_BUFFER)
    try:
        await services.messaging.create_topic(TOPIC)
        await store(services, tasks, 30_000 // tasks)
        await is_about_equal(services, await splits(services, 8), 8)
    finally:
        await services.close()

    services = await open_services(url, settings=SMALL_BUFFER)
    try:
        found = await splits(services, 8)
        await is_about_equal(services, found, 8)
        half = found[4].start
        assert half[10:] != bytes(10), "within what was stored"
        for start, end in ((FIRST_ID, half), (half, found[-1].end)):
            parts = await splits(services, 4, start, end)
            assert sum([await count(services, split) for split in parts]) in range(10_000, 20_001)
            await is_about_equal(services, parts, 4)
    finally:
        await services.close()


async def test_if_no_sizes_are_known_parts_are_of_equal_time(tmp_path: Path) -> None:
    services = await open_services(f"leveldb:{tmp_path}/data", WITHOUT_CACHE)
    try:
        await services.messaging.create_topic(TOPIC)
        for _ in range(3):
            await publish(services, 1000)
        found = await splits(services, 3)
        assert [split.size_bytes for split in found] == [0] * len(found)
        assert sum([await count(services, split) for split in found]) == 3000
    finally:
        await services.close()


@pytest.mark.parametrize("url", ["memory:", "leveldb:"])
@pytest.mark.parametrize("is_stored", [False, True])
async def test_few_messages_are_split_between_them(
    url: str, *, is_stored: bool, tmp_path: Path
) -> None:
    """Whether or not they are in one block of the cache, or were published together."""
    services = await open_services(url if url == "memory:" else f"{url}{tmp_path}/data")
    try:
        await services.messaging.create_topic(TOPIC)
        payloads = [b"%d" % number for number in range(10)]
        if is_stored:
            started = await services.transactions.start(StartRequest())
            pointer = (await services.transactions.checkpoint(started.transaction_id)).write_pointer
            await services.messaging.store(TOPIC, payloads, pointer)
            stored = [Stored(TOPIC, pointer)]
            await services.transactions.commit(
                started.transaction_id, CommitRequest(publish=stored)
            )
        else:
            await services.messaging.publish(TOPIC, payloads)
        counts = [await count(services, split) for split in await splits(services, 4)]
        assert (len(counts), sum(counts)) == (4, 10)
        assert max(counts) <= 3
        each = [await count(services, split) for split in await splits(services, 100)]
        assert each == [1] * 10
    finally:
        await services.close()


async def test_what_cannot_be_split(tmp_path: Path) -> None:
    services = await open_services("memory:")
    try:
        with pytest.raises(TopicNotFound):
            await services.ranges.splits(TOPIC, FIRST_ID, LAST_ID, 2)
        await services.messaging.create_topic(TOPIC)
        for start, end, parts in ((LAST_ID, FIRST_ID, 2), (FIRST_ID, LAST_ID, 0)):
            with pytest.raises(InvalidRequest):
                await services.ranges.splits(TOPIC, start, end, parts)
        assert len(await splits(services, 3, FIRST_ID, FIRST_ID)) == 1
    finally:
        await services.close()


@given(
    st.lists(
        st.tuples(st.integers(1, 99), st.integers(0, 50)), max_size=30, unique_by=lambda p: p[0]
    ),
    st.integers(1, 8),
)
def test_groups_make_up_the_range(pieces: list[tuple[int, int]], parts: int) -> None:
    placed = [_Placed(n.to_bytes(20), size) for n, size in sorted(pieces)]
    start, end = (0).to_bytes(20), (100).to_bytes(20)

    found = _grouped(placed, start, end, parts)

    assert 1 <= len(found) <= parts
    assert (found[0].start, found[-1].end) == (start, end)
    assert all(one.end == two.start for one, two in pairwise(found))
    assert sum(split.size_bytes for split in found) == sum(size for _, size in pieces)
    largest = max((size for _, size in pieces), default=0)
    assert (
        max(split.size_bytes for split in found)
        <= sum(size for _, size in pieces) / parts + largest
    )


async def test_the_thread_stops_when_nobody_waits_for_the_parts(tmp_path: Path) -> None:
    loop, ended, sizes = asyncio.get_running_loop(), threading.Event(), []
    tasks: list[asyncio.Task[Sequence[Split]]] = []

    def cancel_at_first_size(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "size_to" and tasks:
            sizes.append(frame)
            loop.call_soon_threadsafe(tasks[0].cancel)
            assert ended.wait(WAIT_S_MAX)

    threading.setprofile(cancel_at_first_size)  # applies to threads started from now on
    try:
        url = f"leveldb:{tmp_path / 'data'}"
        services = await open_services(url, WITHOUT_CACHE, settings=SMALL_BUFFER)
    finally:
        threading.setprofile(None)
    try:
        await services.messaging.create_topic(TOPIC, {})
        await publish(services, 20_000)
        task = asyncio.create_task(services.ranges.splits(TOPIC, FIRST_ID, LAST_ID, 1_000))
        task.add_done_callback(lambda _: ended.set())
        tasks.append(task)
        with pytest.raises(asyncio.CancelledError):
            await task
        await services.ranges.splits(TOPIC, FIRST_ID, FIRST_ID[:-1] + b"\1", 2)  # in that thread
        assert len(sizes) == 1
    finally:
        await services.close()
