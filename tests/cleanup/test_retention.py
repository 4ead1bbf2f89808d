"""A topic keeps about as much as requested, and never less."""

import asyncio
from collections.abc import Iterator

import pytest

from tables.store import MESSAGE
from tests.cleanup.compaction_machine import bodies
from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId

TOPIC = TopicId("ns", "kept")


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS), LIMITS)
    yield twin
    twin.close()
    loop.close()


def create(twin: Twin, **properties: object) -> None:
    twin.await_(twin.services.messaging.create_topic(TOPIC, properties))


def publish(twin: Twin, *payloads: bytes, pointer: int | None = None) -> None:
    twin.await_(twin.services.messaging.publish(TOPIC, payloads, pointer))
    twin.clock.advance(1)


def payloads(twin: Twin, *, committed: bool = False) -> list[bytes]:
    async def read() -> list[bytes]:
        view = isolation_of(committed=committed)
        blocks = twin.services.messaging.poll(TOPIC, Reading(FIRST_ID, 10_000, view))
        return [message.payload async for block in blocks for message in block]

    return twin.await_(read())


def passed(twin: Twin) -> None:
    for _ in twin.cleaner.steps():
        pass


@pytest.mark.parametrize("bound", [{"retention_messages": 3}, {"retention_bytes": 3}])
def test_the_oldest_go(twin: Twin, bound: dict[str, int]) -> None:
    create(twin, **bound)
    for number in range(10):
        publish(twin, b"%d" % number)
        passed(twin)
    assert payloads(twin) == [b"7", b"8", b"9"]
    passed(twin)
    with twin.store.scan(MESSAGE, b"", b"\xff") as rows:
        assert len(list(rows)) == 3
    publish(twin, b"x")
    passed(twin)
    assert payloads(twin) == [b"8", b"9", b"x"]


def test_never_more_goes_than_was_asked(twin: Twin) -> None:
    """Messages of one millisecond are deleted together."""
    create(twin, retention_messages=3)
    publish(twin, b"0", b"1")
    publish(twin, b"2", b"3", b"4", b"5")
    passed(twin)
    assert payloads(twin) == [b"2", b"3", b"4", b"5"]


def test_both_bounds_count(twin: Twin) -> None:
    create(twin, retention_messages=3, retention_bytes=1_000)
    for number in range(5):
        publish(twin, b"%d" % number)
    publish(twin, b"x" * 2_000)
    passed(twin)
    assert payloads(twin) == [b"x" * 2_000]


def test_a_bound_that_is_set_later_counts_what_is_there(twin: Twin) -> None:
    create(twin)
    for number in range(30):
        publish(twin, b"%d" % number)
    passed(twin)
    assert len(payloads(twin)) == 30
    twin.await_(twin.services.messaging.update_topic(TOPIC, {"retention_messages": 10}))
    passed(twin)
    assert len(payloads(twin)) == 10
    twin.reopen(crashes=True)
    passed(twin)
    assert len(payloads(twin)) == 10


def test_counting_waits_for_what_is_in_progress(twin: Twin) -> None:
    create(twin, retention_messages=2)
    publish(twin, b"0")
    tx = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    publish(twin, b"1", b"2", b"3", pointer=tx)
    publish(twin, b"4", b"5")
    passed(twin)
    assert len(payloads(twin)) == 6
    twin.await_(twin.transactions.commit(tx))
    passed(twin)
    assert payloads(twin, committed=True) == [b"4", b"5"]


def test_what_was_rolled_back_does_not_count(twin: Twin) -> None:
    create(twin, retention_messages=2)
    publish(twin, b"0")
    publish(twin, b"1")
    tx = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    published = twin.await_(twin.services.messaging.publish(TOPIC, [b"2", b"3"], tx))
    assert published.rollback_range is not None
    twin.await_(twin.rolled_back(TOPIC, published.rollback_range))
    twin.await_(twin.transactions.abort(tx))
    passed(twin)
    assert payloads(twin, committed=True) == [b"0", b"1"]


def test_stored_messages_count_and_go_by_when_they_were_stored(twin: Twin) -> None:
    create(twin, retention_messages=3)
    tx = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    twin.await_(twin.services.messaging.store(TOPIC, [b"a", b"b", b"c", b"d"], tx))
    twin.clock.advance(5)
    publish(twin, b"0")
    publish(twin, b"1")
    publish(twin, pointer=tx)
    twin.await_(twin.transactions.commit(tx))
    passed(twin)
    # Only messages published before these were stored could be deleted, and there are none.
    assert payloads(twin, committed=True) == [b"0", b"1", b"a", b"b", b"c", b"d"]
    for number in range(2, 5):
        publish(twin, b"%d" % number)
    passed(twin)
    assert payloads(twin, committed=True) == [b"2", b"3", b"4"]


def test_what_expires_by_its_ttl_is_counted_no_more(twin: Twin) -> None:
    create(twin, ttl=10, retention_messages=3)
    for number in range(3):
        publish(twin, b"%d" % number)
    passed(twin)
    twin.clock.advance(11_000)
    for number in range(3, 6):
        publish(twin, b"%d" % number)
        passed(twin)
    assert payloads(twin) == [b"3", b"4", b"5"]


def test_what_compaction_took_is_counted_no_more(twin: Twin) -> None:
    create(twin, cleanup="compact", retention_messages=10)

    def put(*keys: bytes) -> None:
        for key in keys:
            twin.await_(twin.services.messaging.publish(TOPIC, bodies([(key, key)])))
            twin.clock.advance(1)
        passed(twin)

    put(b"1", b"2", b"3", b"4", b"5")
    put(b"b", b"b", b"b")  # counted, and then superseded
    put(b"b", b"c")
    put(b"d")
    assert payloads(twin) == [b"1", b"2", b"3", b"4", b"5", b"b", b"c", b"d"]
