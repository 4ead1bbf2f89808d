"""Topics that change while a pass is under way.

Messages that have expired stay expired, others are kept, and invalid ones are never shown.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from cleanup.ranges import Step
from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId
from tms.transactions import service

FIRST = TopicId("ns", "a")
TOPIC = TopicId("ns", "b")
LATER = TopicId("ns", "c")
STAY_MS = (LIMITS.transaction_lifetime_s_max + LIMITS.cleanup_grace_s) * 1000


@pytest.fixture(autouse=True)
def _timeouts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_TICK_S", 1_000_000.0)


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS))
    yield twin
    twin.close()
    loop.close()


def create(twin: Twin, topic_id: TopicId, ttl_s: int = 604_800) -> None:
    twin.await_(twin.services.messaging.create_topic(topic_id, {"ttl": ttl_s}))


def set_ttl(twin: Twin, topic_id: TopicId, ttl_s: int) -> None:
    twin.await_(twin.services.messaging.update_topic(topic_id, {"ttl": ttl_s}))


def publish(twin: Twin, topic_id: TopicId, *payloads: bytes, pointer: int | None = None) -> None:
    twin.await_(twin.services.messaging.publish(topic_id, payloads, pointer))


def shown(twin: Twin, topic_id: TopicId, *, committed: bool = False) -> list[bytes]:
    return [payload for _, payload in twin.await_(twin.polled(topic_id, committed=committed))]


def begun_pass(twin: Twin) -> Iterator[Step]:
    """Begin a pass that has read the list of topics and has reached the first one."""
    for number in range(3):
        publish(twin, FIRST, b"%d" % number)
    twin.clock.advance(5_000)
    set_ttl(twin, FIRST, 4)
    steps = twin.cleaner.steps()
    while not next(steps).dropped:
        pass
    return steps


def test_a_ttl_raised_during_a_pass_keeps_what_had_not_expired(twin: Twin) -> None:
    create(twin, FIRST)
    create(twin, TOPIC, ttl_s=4)
    steps = begun_pass(twin)
    for number in range(10):
        publish(twin, TOPIC, b"%d" % number)
        twin.clock.advance(100)
    set_ttl(twin, TOPIC, 100_000)
    twin.clock.advance(5_000)
    for _ in steps:
        pass

    assert len(shown(twin, TOPIC)) == 10
    twin.reopen(crashes=False)
    assert len(shown(twin, TOPIC)) == 10


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_has_expired_does_not_come_back_with_a_longer_ttl(
    twin: Twin, *, cleaned: bool, restarted: bool
) -> None:
    create(twin, TOPIC, ttl_s=4)
    publish(twin, TOPIC, b"old")
    twin.clock.advance(3_000)
    publish(twin, TOPIC, b"new")
    twin.clock.advance(2_000)
    if cleaned:
        twin.clean()
    set_ttl(twin, TOPIC, 100_000)
    if restarted:
        twin.reopen(crashes=False)

    assert shown(twin, TOPIC) == [b"new"]
    twin.clock.advance(50_000_000)
    twin.clean()
    assert shown(twin, TOPIC) == [b"new"]
    twin.clock.advance(60_000_000)
    assert shown(twin, TOPIC) == []


def test_nor_with_a_shorter_one_between_nor_under_a_clock_set_back(twin: Twin) -> None:
    create(twin, TOPIC, ttl_s=100)
    publish(twin, TOPIC, b"old")
    twin.clock.advance(5_000)
    set_ttl(twin, TOPIC, 4)
    set_ttl(twin, TOPIC, 100)
    assert shown(twin, TOPIC) == []

    twin.clock.advance(-5_000)
    assert shown(twin, TOPIC) == []
    set_ttl(twin, TOPIC, 1_000)
    assert shown(twin, TOPIC) == []


def test_what_is_published_after_a_clock_ran_ahead_lives(twin: Twin) -> None:
    create(twin, TOPIC, ttl_s=4)
    twin.clock.advance(1_000_000_000)
    set_ttl(twin, TOPIC, 100)
    twin.clock.advance(-1_000_000_000)
    pointer = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    publish(twin, TOPIC, b"plain")
    twin.await_(twin.services.messaging.store(TOPIC, [b"stored"], pointer))
    publish(twin, TOPIC, pointer=pointer)
    twin.clean()

    assert shown(twin, TOPIC) == [b"plain", b"stored"]


def test_a_new_generation_has_no_part_in_that(twin: Twin) -> None:
    create(twin, TOPIC, ttl_s=4)
    twin.clock.advance(5_000)
    set_ttl(twin, TOPIC, 100)
    row = twin.await_(twin.services.messaging.topic(TOPIC))
    twin.await_(twin.services.messaging.delete_topic(TOPIC))
    create(twin, TOPIC, ttl_s=4)

    assert row.live_from_ms == NOW_MS + 1_000
    assert twin.await_(twin.services.messaging.topic(TOPIC)).live_from_ms == 0


def recreated(twin: Twin) -> None:
    twin.await_(twin.services.messaging.delete_topic(LATER))
    create(twin, LATER)


def made(twin: Twin) -> None:
    create(twin, LATER)


@pytest.mark.parametrize("change", [made, recreated])
def test_what_is_invalid_in_a_topic_made_during_a_pass_is_never_shown(
    twin: Twin, change: Callable[[Twin], None]
) -> None:
    create(twin, FIRST)
    if change is recreated:
        create(twin, LATER)
    pointer = twin.await_(twin.transactions.start(StartRequest(timeout_s=50))).transaction_id
    twin.reopen(crashes=True)
    steps = begun_pass(twin)
    change(twin)
    publish(twin, LATER, b"dead", pointer=pointer)
    twin.await_(twin.transactions.invalidate(pointer))
    for _ in steps:
        pass
    twin.clock.advance(STAY_MS + 1)
    twin.clean()
    listed = twin.invalid_list()

    assert listed is not None
    assert not listed.since
    assert shown(twin, LATER) == [b"dead"]
    assert shown(twin, LATER, committed=True) == []
