"""Scheduled messages on a whole service, with a clock that tests move."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tables.store import GROUP
from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.schedules.conftest import World
from tests.waiting import WAIT_S_MAX, turns, until
from tms.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    ScheduledNotFound,
    StoreUnavailable,
    TooLarge,
    TopicNotFound,
)
from tms.core.limits import Limits
from tms.core.services.findings import FindingKind
from tms.core.values.batch import Batch
from tms.core.values.schedules import DeliveryTime, SchedulePage
from tms.core.values.store_features import SCHEDULES
from tms.core.values.topic import TopicId
from tms.messaging.schedules import timer

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000


async def test_a_message_is_published_when_it_is_due_and_not_before(world: World) -> None:
    await world.schedule(b"later", after_s=60)
    await world.schedule(b"soon", after_s=1)
    assert await world.published() == []
    assert await world.waiting() == [b"soon", b"later"]
    world.clock.advance(1_000)
    await world.publishes([b"soon"])
    assert await world.waiting() == [b"later"]
    world.clock.advance(59_000)
    await world.publishes([b"soon", b"later"])
    assert await world.waiting() == []


async def test_what_is_due_at_once_is_published_in_order_and_without_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer, "_AGAIN_S", 3_600)
    payloads = [b"%d" % number for number in range(9_500)]
    await world.schedule(*payloads)
    await world.publishes(payloads)


async def test_the_oldest_due_time_goes_first_then_the_order_of_scheduling(world: World) -> None:
    await world.schedule(b"c", b"d", after_s=2)
    await world.schedule(b"a", after_s=1)
    await world.schedule(b"e", after_s=2)
    await world.schedule(b"b", after_s=1)
    world.clock.advance(10_000)
    await world.publishes([b"a", b"b", b"c", b"d", b"e"])


async def test_a_schedule_survives_a_restart(world: World) -> None:
    await world.schedule(b"a", after_s=1)
    await world.again()
    assert await world.waiting() == [b"a"]
    await world.again()
    world.clock.advance(1_000)
    await world.publishes([b"a"])
    await world.again()
    await world.schedule(b"b")
    await world.publishes([b"a", b"b"])


async def test_what_was_due_while_the_server_was_down_is_published_at_the_start(
    world: World,
) -> None:
    await world.schedule(b"a", after_s=1)
    await world.services.close()
    world.clock.advance(HOUR_MS)
    await world.open()
    await world.publishes([b"a"])


async def test_a_cancelled_message_is_not_published(world: World) -> None:
    [first, second] = await world.schedule(b"a", b"b", after_s=1)
    await world.services.schedules.cancel_scheduled(TOPIC, first)
    with pytest.raises(ScheduledNotFound):
        await world.services.schedules.cancel_scheduled(TOPIC, first)
    assert await world.waiting() == [b"b"]
    world.clock.advance(1_000)
    await world.publishes([b"b"])
    with pytest.raises(ScheduledNotFound):
        await world.services.schedules.cancel_scheduled(TOPIC, second)


async def test_a_message_that_is_cancelled_when_it_is_due_is_either_cancelled_or_published(
    world: World,
) -> None:
    cancelled: list[bytes] = []

    async def cancel(scheduled: str, payload: bytes, after: int) -> None:
        await turns(after)
        try:
            await world.services.schedules.cancel_scheduled(TOPIC, scheduled)
        except ScheduledNotFound:
            return
        cancelled.append(payload)

    payloads = [b"%d" % number for number in range(200)]
    ids = await world.schedule(*payloads, after_s=1)
    world.clock.advance(1_000)
    world.services.schedules._timer.look_at(TOPIC, 0)
    tasks = [cancel(each, p, n) for n, (each, p) in enumerate(zip(ids, payloads, strict=True))]
    await asyncio.gather(*tasks)
    await world.publishes([each for each in payloads if each not in cancelled])
    assert await world.waiting() == []


async def test_a_message_that_is_cancelled_after_its_page_was_read_is_not_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await world.schedule(b"a", b"b", b"c", after_s=1)
    threads, cancelled = world.services.engine.threads, list[str]()
    usual: Any = threads.read

    async def cancel_after(call: Any, *arguments: Any, **more: Any) -> Any:
        result = await usual(call, *arguments, **more)
        if isinstance(result, SchedulePage) and not cancelled:
            cancelled.append(ids[1])
            await world.services.schedules.cancel_scheduled(TOPIC, ids[1])
        return result

    monkeypatch.setattr(threads, "read", cancel_after)
    world.clock.advance(1_000)
    await world.publishes([b"a", b"c"])
    assert cancelled
    assert await world.waiting() == []


@pytest.mark.parametrize("world", ["memory"], indirect=True)
async def test_no_cancellation_is_refused_because_of_a_publication_that_fails(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [scheduled] = await world.schedule(b"a", after_s=1)
    schedules, messaging = world.services.schedules, world.services.messaging
    [loaded] = schedules._schedules._loaded.values()
    store = world.store

    written = len(store.batches)

    def fail_after_first(write: Callable[[Batch], None], batch: Batch) -> None:
        if len(store.batches) > written:
            raise OutcomeUnknown(reason="made to fail")
        write(batch)

    store.passed.clear()
    first = asyncio.ensure_future(messaging.publish(TOPIC, [b"first"]))
    await until(lambda: world.services.engine.writer._outstanding)
    world.clock.advance(1_000)
    schedules._timer.look_at(TOPIC, 0)
    await turns(100)
    cancelling = asyncio.ensure_future(schedules.cancel_scheduled(TOPIC, scheduled))
    await turns(100)
    with monkeypatch.context() as patched:
        patched.setattr(store, "write_or_fail", fail_after_first)
        store.passed.set()
        await first
        await until(lambda: loaded.is_dropped)
    with pytest.raises(StoreUnavailable):
        await cancelling
    await schedules.cancel_scheduled(TOPIC, scheduled)
    assert await world.published() == [b"first"]


@pytest.mark.parametrize("world", ["memory"], indirect=True)
async def test_the_timer_ends_at_any_moment_after_it_was_woken(world: World) -> None:
    for between in range(8):
        await world.schedule(b"a", after_s=60)
        await turns(20)
        world.services.schedules._timer._wake.set()
        await turns(between)
        async with asyncio.timeout(WAIT_S_MAX):
            await world.again()


async def test_deleting_a_topic_ends_its_schedule(world: World) -> None:
    await world.schedule(b"old", after_s=1)
    await world.services.messaging.delete_topic(TOPIC)
    with pytest.raises(TopicNotFound):
        await world.waiting()
    await world.services.messaging.create_topic(TOPIC)
    assert await world.waiting() == []
    await world.schedule(b"new", after_s=1)
    world.clock.advance(HOUR_MS)
    await world.publishes([b"new"])
    await world.again()
    await world.schedule(b"newer")
    await world.publishes([b"new", b"newer"])


async def test_a_clock_that_is_set_back_neither_holds_up_nor_hurries_messages(
    world: World,
) -> None:
    await world.schedule(b"a")
    await world.publishes([b"a"])
    await world.services.close()
    world.clock.step(-HOUR_MS)
    await world.open()
    await world.schedule(b"c", after_s=60)
    await world.schedule(b"b")
    await world.publishes([b"a", b"b"])
    assert await world.waiting() == [b"c"]
    world.clock.advance(60_000)
    await world.publishes([b"a", b"b", b"c"])


async def test_a_time_in_the_past_is_now(world: World) -> None:
    delivery = DeliveryTime(at_ms=NOW_MS - HOUR_MS)
    scheduled = await world.services.schedules.schedule(TOPIC, [b"a"], delivery)
    assert scheduled.at_ms == NOW_MS
    await world.publishes([b"a"])


@pytest.mark.parametrize(
    "delivery",
    [
        DeliveryTime(),
        DeliveryTime(NOW_MS, 1),
        DeliveryTime(at_ms=-1),
        DeliveryTime(after_s=-1),
        DeliveryTime(after_s=float("nan")),
        DeliveryTime(after_s=float("inf")),
        DeliveryTime(after_s=31 * 24 * 3600),
        DeliveryTime(at_ms=NOW_MS + 31 * 24 * HOUR_MS),
    ],
)
async def test_a_wrong_time_is_refused(world: World, delivery: DeliveryTime) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await world.services.schedules.schedule(TOPIC, [b"a"], delivery)
    assert refused.value.problem.code == "invalid_delivery_time"


async def test_a_topic_has_a_limit_of_scheduled_messages(world: World) -> None:
    world.limits = Limits(topic_scheduled_max=2)
    await world.again()
    [first, _] = await world.schedule(b"a", b"b", after_s=1)
    await world.again()
    with pytest.raises(TooLarge) as refused:
        await world.schedule(b"c")
    assert refused.value.problem.code == "too_many_scheduled"
    await world.services.schedules.cancel_scheduled(TOPIC, first)
    await world.schedule(b"c")
    await world.publishes([b"c"])
    await world.schedule(b"d")
    await world.publishes([b"c", b"d"])


async def test_a_message_is_checked_when_it_is_scheduled(world: World) -> None:
    compact = TopicId("default", "compact")
    await world.services.messaging.create_topic(compact, {"cleanup": "compact"})
    with pytest.raises(InvalidRequest) as refused:
        await world.schedule(b"without a key", topic_id=compact)
    assert refused.value.problem.code == "key_required"


async def test_an_unknown_id_is_not_found(world: World) -> None:
    for each in ("", "0" * 32, "g" * 32, "f" * 32):
        with pytest.raises(ScheduledNotFound):
            await world.services.schedules.cancel_scheduled(TOPIC, each)


async def test_the_feature_is_recorded_with_the_first_schedule(world: World) -> None:
    tables = world.services.engine.tables
    assert SCHEDULES not in tables.features()
    await world.schedule(b"a", after_s=1)
    assert SCHEDULES in tables.features()
    properties = (await world.services.messaging.topic(TOPIC)).all_properties()
    assert not any("scheduled" in name for name in properties)


async def test_a_schedule_in_which_nothing_waits_leaves_memory(world: World) -> None:
    schedules = world.services.schedules
    await world.schedule(b"a")
    await world.publishes([b"a"])
    await until(lambda: not len(schedules._schedules))
    assert await world.waiting() == []
    assert not len(schedules._schedules)

    await world.schedule(b"b", after_s=60)
    await world.services.messaging.delete_topic(TOPIC)
    await until(lambda: not len(schedules._schedules))
    assert gauge(world, "scheduled_messages") == 0
    assert not len(schedules._timer._due)


async def test_updating_a_topic_keeps_its_schedule(world: World) -> None:
    await world.schedule(b"a", after_s=1)
    await world.services.messaging.update_topic(TOPIC, {"ttl": 3600})
    await world.again()
    world.clock.advance(1_000)
    await world.publishes([b"a"])


def gauge(world: World, name: str) -> float:
    found = world.services.engine.metrics.collect()
    [metric] = [each for each in found if each.name == f"tms_{name}"]
    return float(metric.samples[0].value)


async def test_messages_that_wait_are_counted_after_a_start_too(world: World) -> None:
    await world.schedule(b"a", after_s=1)
    await world.schedule(b"b", b"c", after_s=60)
    assert gauge(world, "scheduled_messages") == 3
    await world.again()
    await until(lambda: gauge(world, "scheduled_messages") == 3)
    world.clock.advance(1_000)
    await world.publishes([b"a"])
    assert gauge(world, "scheduled_messages") == 2
    await until(lambda: gauge(world, "scheduled_overdue_seconds") == 0)


@pytest.mark.parametrize("world", ["memory"], indirect=True)
async def test_a_finding_says_that_due_messages_cannot_be_published(world: World) -> None:
    [scheduled] = await world.schedule(b"a", after_s=1)
    with world.store.scan(GROUP, b"", b"\xff") as rows:
        key = next(key for key, _ in rows if bytes.fromhex(scheduled) in key)

    def replace(value: bytes) -> None:
        batch = world.store.batch()
        batch.put(GROUP, key, value)
        world.store.write(batch)

    replace(b"damaged")
    world.clock.advance(1_000)
    await until(lambda: bool(world.services.findings()))
    [finding] = world.services.findings()
    assert (finding.kind, finding.where) == (FindingKind.SCHEDULE_FAILING, str(TOPIC))
    world.clock.advance(60_000)
    assert gauge(world, "scheduled_overdue_seconds") >= 60
    replace(b"\x00a")
    await world.publishes([b"a"])
    await until(lambda: not world.services.findings())
    assert gauge(world, "scheduled_overdue_seconds") == 0
