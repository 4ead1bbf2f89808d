"""The memory of an invalid transaction once cleanup has inverted its entries.

The transaction stays on the invalid list for a day, so a program with ten timeouts per second has a
million entries there.
"""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cleanup.twins import LIMITS, NOW_MS, LevelDBTwin, Twin
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.transactions.living import Living
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId
from tms.transactions import service
from tms.transactions.snapshot_codec import encode_snapshot

AT_ONCE = 1_000
BYTES_MAX = 16
SLACK_BYTES = 128 * 1024
"""Room for structures that grow in jumps: queues and dictionaries of a thousand calls at once."""
SMALL = replace(LIMITS, cache_bytes_max=100_000, cleanup_slice_rows=1_000)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Twin]:
    monkeypatch.setattr(service, "_TICK_S", 1_000_000.0)
    loop = asyncio.new_event_loop()
    twin = LevelDBTwin(loop, ManualClock(NOW_MS), SMALL)
    yield twin
    twin.close()
    loop.close()


async def time_out(twin: Twin, topic_id: TopicId, count: int) -> None:
    """Let transactions publish, one at a time, and time out."""
    transactions, messaging = twin.transactions, twin.services.messaging

    async def publish() -> None:
        started = await transactions.start(StartRequest(timeout_s=1, client="reporter"))
        await messaging.publish(topic_id, [b"x"], started.write_pointer)

    await asyncio.gather(*(publish() for _ in range(count)))
    twin.clock.advance(1_001)
    await transactions._expire()


def rounds(twin: Twin, count: int) -> None:
    """Time out a thousand transactions in a topic, delete it and clean up, repeatedly."""
    messaging = twin.services.messaging
    for number in range(count):
        topic_id = TopicId("ns", f"t{number % 10}")
        twin.await_(messaging.create_topic(topic_id))
        twin.await_(time_out(twin, topic_id, AT_ONCE))
        twin.await_(messaging.delete_topic(topic_id))
        twin.clean()


def traced() -> int:
    gc.collect()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_if_it_published_is_forgotten(twin: Twin) -> None:
    rounds(twin, 1)
    publications = twin.services.engine.publications
    assert twin.await_(twin.transactions.invalid_count()) == AT_ONCE
    assert not publications._by_pointer
    assert not publications._noted


def test_it_is_kept_as_long_as_a_reader_may_stop_there(twin: Twin) -> None:
    topic_id = TopicId("ns", "t")
    twin.await_(twin.services.messaging.create_topic(topic_id))
    reader = twin.await_(twin.transactions.start(StartRequest(timeout_s=50)))
    twin.await_(time_out(twin, topic_id, 3))
    twin.clean()
    publications = twin.services.engine.publications
    assert len(publications._by_pointer) == 3
    twin.await_(twin.transactions.commit(reader.transaction_id))
    twin.clean()
    assert not publications._by_pointer


def test_one_on_the_list_takes_sixteen_bytes() -> None:
    count = scaled(100_000)
    living = Living()
    tracemalloc.start()
    try:
        before = traced()
        for number in range(count):
            request = StartRequest(timeout_s=1, client="reporter")
            living.do(living.state.start(request, living.now_ms, keys_from_ms=living.now_ms).edits)
            if number % AT_ONCE == AT_ONCE - 1:
                living.now_ms += 1_001
                living.expire()
                living.edits.clear()
                living.state.latest_snapshot()
        encode_snapshot(living.state, living.now_ms)  # as happens now and then
        bytes_more = traced() - before
    finally:
        tracemalloc.stop()
    assert len(living.invalid) == count
    assert bytes_more < BYTES_MAX * count + SLACK_BYTES


@pytest.mark.slow
def test_a_hundred_thousand_that_published_take_sixteen_bytes_each(twin: Twin) -> None:
    count = scaled(100_000)
    tracemalloc.start()
    try:
        rounds(twin, 2)
        before = traced()
        rounds(twin, count // AT_ONCE)
        bytes_more = traced() - before
    finally:
        tracemalloc.stop()
    assert twin.await_(twin.transactions.invalid_count()) == count + 2 * AT_ONCE
    assert bytes_more < BYTES_MAX * count + SLACK_BYTES
