"""The five verbs: the input, output and refusals that the model does not compare."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.messaging.polled import payloads, polled, settle
from tms.core.errors import (
    InvalidRequest,
    RollbackRefused,
    Stopping,
    StoreUnavailable,
    TmsError,
    TooLarge,
    TopicNotFound,
    TransactionExpired,
)
from tms.core.limits import Limits
from tms.core.services.messaging import Page, RollbackRange
from tms.core.values.message import FIRST_ID, id_after
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.core.values.transaction import ALL_VISIBLE_LATEST, Transaction
from tms.messaging.service import Service

pytestmark = pytest.mark.anyio
POINTER = NOW_MS * 1_000_000
LIFETIME_MS = 25 * 3600 * 1000


def code_of(refused: pytest.ExceptionInfo[TmsError]) -> str:
    return refused.value.problem.code


class TestRefusals:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(
            request_messages_max=3, message_bytes_max=10, request_bytes_max=25, queue_bytes_max=1000
        )

    @pytest.mark.parametrize(
        ("messages", "code"),
        [
            ([b""] * 4, "too_many_messages"),
            ([b"x" * 11], "message_too_large"),
            ([b"x" * 9] * 3, "request_too_large"),
        ],
    )
    async def test_what_is_over_a_cap(
        self, service: Service, messages: list[bytes], code: str
    ) -> None:
        for work in (
            service.publish(TOPIC, messages),
            service.publish(TOPIC, messages, POINTER),
            service.store(TOPIC, messages, POINTER),
        ):
            with pytest.raises(TooLarge) as refused:
                await work
            assert code_of(refused) == code
        assert await polled(service) == []

    async def test_empty_requests(self, service: Service) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await service.publish(TOPIC, [])
        assert code_of(refused) == "empty_publish"
        with pytest.raises(InvalidRequest) as refused:
            await service.store(TOPIC, [], POINTER)
        assert code_of(refused) == "invalid_store"

    @pytest.mark.parametrize("pointer", [0, -1, 2**63])
    async def test_what_is_not_a_write_pointer(self, service: Service, pointer: int) -> None:
        for work in (
            service.publish(TOPIC, [b"x"], pointer),
            service.store(TOPIC, [b"x"], pointer),
        ):
            with pytest.raises(InvalidRequest) as refused:
                await work
            assert code_of(refused) == "invalid_write_pointer"

    async def test_a_transaction_past_its_longest_lifetime(
        self, service: Service, clock: ManualClock
    ) -> None:
        clock.advance(LIFETIME_MS - 1)
        await service.publish(TOPIC, [b"x"], POINTER)
        clock.advance(1)
        for work in (
            service.publish(TOPIC, [b"x"], POINTER),
            service.store(TOPIC, [b"x"], POINTER),
        ):
            with pytest.raises(TransactionExpired):
                await work

    async def test_a_topic_that_is_not_there(self, service: Service) -> None:
        absent = TopicId("default", "absent")
        published = RollbackRange(POINTER, 1, 0, 1, 0)
        for work in (
            service.publish(absent, [b"x"]),
            service.store(absent, [b"x"], POINTER),
            service.rollback(absent, published),
            service.topic(absent),
            service.delete_topic(absent),
            service.update_topic(absent, {}),
            service.page(absent, Reading(FIRST_ID, limit=1)),
        ):
            with pytest.raises(TopicNotFound):
                await work

    @pytest.mark.parametrize(
        "change",
        [
            {"write_pointer": 0},
            {"start_timestamp": -1},
            {"end_timestamp": 2**63},
            {"start_sequence_id": 65_536},
            {"end_sequence_id": -1},
            {"end_timestamp": 4},
        ],
    )
    async def test_what_is_not_a_range(self, service: Service, change: dict[str, int]) -> None:
        published = replace(RollbackRange(POINTER, 5, 0, 6, 0), **change)
        with pytest.raises(InvalidRequest) as refused:
            await service.rollback(TOPIC, published)
        assert code_of(refused) == "invalid_rollback_range"

    async def test_limits_of_a_poll(self, service: Service) -> None:
        assert service.limit_of(None) == 100
        assert service.limit_of(7) == 7
        assert service.limit_of(2**31 - 1) == 1_000_000
        for wrong in (0, -1):
            with pytest.raises(InvalidRequest) as refused:
                service.limit_of(wrong)
            assert code_of(refused) == "invalid_limit"


class TestRollback:
    async def test_it_touches_only_entries_of_its_own_pointer(self, service: Service) -> None:
        first = (await service.publish(TOPIC, [b"a"], POINTER)).rollback_range
        await service.publish(TOPIC, [b"plain"])
        last = (await service.publish(TOPIC, [b"b"], POINTER + 1)).rollback_range
        assert first is not None
        assert last is not None
        whole = RollbackRange(
            POINTER + 1,
            first.start_timestamp,
            first.start_sequence_id,
            last.end_timestamp,
            last.end_sequence_id,
        )
        await service.rollback(TOPIC, whole)

        blocks = service.poll(TOPIC, Reading(FIRST_ID, view=ALL_VISIBLE_LATEST))
        assert [m.payload async for block in blocks for m in block] == [b"a", b"plain"]
        assert await payloads(service) == [b"a", b"plain", b"b"]

    async def test_a_range_of_others_alone_is_refused(self, service: Service) -> None:
        published = (await service.publish(TOPIC, [b"a"], POINTER)).rollback_range
        assert published is not None
        with pytest.raises(RollbackRefused):
            await service.rollback(TOPIC, replace(published, write_pointer=POINTER + 1))

    async def test_an_empty_range_is_not_an_error(self, service: Service) -> None:
        await service.rollback(TOPIC, RollbackRange(POINTER, 1, 0, 2, 0))

    async def test_a_range_longer_than_is_read_at_once(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(service.rollbacks, "_rows_max", 3)
        await service.publish(TOPIC, [b"plain"] * 4)
        published = (await service.publish(TOPIC, [b"x"] * 10, POINTER)).rollback_range
        assert published is not None
        await service.rollback(TOPIC, replace(published, start_timestamp=0))

        page = await service.page(TOPIC, Reading(FIRST_ID, limit=100, view=ALL_VISIBLE_LATEST))
        assert page.count == 4


class TestReferences:
    async def test_stored_payloads_are_seen_through_a_reference_alone(
        self, service: Service
    ) -> None:
        await service.store(TOPIC, [b"a", b"b"], POINTER)
        assert await payloads(service) == []
        await service.publish(TOPIC, [], POINTER)
        assert await payloads(service) == [b"a", b"b"]

    async def test_a_reference_to_nothing_gives_nothing_and_blocks_nothing(
        self, service: Service
    ) -> None:
        await service.publish(TOPIC, [], POINTER)
        await service.publish(TOPIC, [b"after"])
        assert await payloads(service) == [b"after"]

    async def test_payloads_older_than_the_ttl_are_not_given(
        self, service: Service, clock: ManualClock
    ) -> None:
        """They may have been pruned: a poll gives the same before and after that."""
        await service.update_topic(TOPIC, {"ttl": 10})
        await service.store(TOPIC, [b"old"], POINTER)
        clock.advance(6_000)
        await service.store(TOPIC, [b"young"], POINTER)
        await service.publish(TOPIC, [], POINTER)
        assert await payloads(service) == [b"old", b"young"]
        clock.advance(6_000)
        assert await payloads(service) == [b"young"]

    async def test_ids_of_stored_payloads_ascend_though_the_clock_goes_back(
        self, service: Service, clock: ManualClock
    ) -> None:
        await service.store(TOPIC, [b"a"], POINTER)
        clock.advance(-5_000)
        await service.store(TOPIC, [b"b"], POINTER)
        await service.publish(TOPIC, [], POINTER)
        assert await payloads(service) == [b"a", b"b"]


async def test_raising_the_ttl_brings_nothing_back_that_has_expired(
    service: Service, clock: ManualClock
) -> None:
    """Otherwise the messages that readers get would depend on the progress of cleanup."""
    await service.update_topic(TOPIC, {"ttl": 1})
    await service.publish(TOPIC, [b"x"])
    clock.advance(1_000)
    assert await payloads(service) == [b"x"]
    clock.advance(1)
    assert await payloads(service) == []
    await service.update_topic(TOPIC, {})
    assert await payloads(service) == []
    await service.publish(TOPIC, [b"y"])
    clock.advance(2_000)
    assert await payloads(service) == [b"y"]


async def test_a_new_generation_starts_empty_above_the_old_ids(
    service: Service, clock: ManualClock
) -> None:
    await service.publish(TOPIC, [b"old"])
    [(old_id, _)] = await polled(service)
    await service.delete_topic(TOPIC)
    clock.advance(-60_000)
    await service.create_topic(TOPIC, {"ttl": "5"})
    assert (await service.topic(TOPIC)).all_properties() == {"generation": "2", "ttl": "5"}
    await service.publish(TOPIC, [b"new"])

    clock.advance(60_000)
    assert await polled(service, id_after(old_id)) == await polled(service)
    assert await payloads(service) == [b"new"]


class TestLongPoll:
    async def page(self, service: Service, wait_s: float = 60.0) -> Page:
        return await service.page(TOPIC, Reading(FIRST_ID, limit=10), wait_s=wait_s)

    async def test_it_answers_at_once_if_there_is_something(self, service: Service) -> None:
        await service.publish(TOPIC, [b"x"])
        assert (await self.page(service)).count == 1

    async def test_the_writer_wakes_it(self, service: Service) -> None:
        waiting = asyncio.create_task(self.page(service))
        await settle()
        assert not waiting.done()
        await service.publish(TOPIC, [b"x"])
        assert (await waiting).count == 1

    async def test_it_ends_with_nothing_when_time_is_up(self, service: Service) -> None:
        assert (await self.page(service, wait_s=0.01)).count == 0

    async def test_it_continues_waiting_if_nothing_of_it_is_visible(self, service: Service) -> None:
        blind = Transaction(read_pointer=0, transaction_id=1, write_pointer=1, invalids=(POINTER,))
        waiting = asyncio.create_task(
            service.page(TOPIC, Reading(FIRST_ID, limit=10, view=blind), wait_s=60.0)
        )
        await settle()
        await service.publish(TOPIC, [b"invalid"], POINTER)
        await settle()
        assert not waiting.done()
        await service.publish(TOPIC, [b"plain"])
        assert [m.payload for block in (await waiting).blocks for m in block] == [b"plain"]

    async def test_deleting_the_topic_ends_it(self, service: Service) -> None:
        waiting = asyncio.create_task(self.page(service))
        await settle()
        await service.delete_topic(TOPIC)
        with pytest.raises(TopicNotFound):
            await waiting

    async def test_stopping_ends_it(self, service: Service) -> None:
        waiting = asyncio.create_task(self.page(service))
        await settle()
        service.stop_waiting()
        assert (await waiting).count == 0
        with pytest.raises(Stopping):
            service.check_ready()

    async def test_one_that_is_cancelled_leaves_nothing(self, service: Service) -> None:
        waiting = asyncio.create_task(self.page(service))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not service._states._states[TOPIC]._waiters


async def test_a_closed_service_refuses_everything(service: Service) -> None:
    await service.publish(TOPIC, [b"x"])
    await service.close()
    for work in (
        service.publish(TOPIC, [b"x"]),
        service.create_topic(TopicId("default", "u")),
        service.topics("default"),
    ):
        with pytest.raises((Stopping, StoreUnavailable)):
            await work


async def test_metrics_count_what_was_done(service: Service, registry: CollectorRegistry) -> None:
    await service.publish(TOPIC, [b"abc", b"de"])
    await service.store(TOPIC, [b"x"], POINTER)
    published = (await service.publish(TOPIC, [b"y"], POINTER)).rollback_range
    assert published is not None
    await service.rollback(TOPIC, published)
    await polled(service)

    expected = {
        "tms_published_messages_total": 3,
        "tms_published_bytes_total": 6,
        "tms_stored_messages_total": 1,
        "tms_rolled_back_messages_total": 1,
        "tms_polled_messages_total": 3,
        "tms_cache_hits_total": 1,
        "tms_cache_misses_total": 0,
        "tms_flush_requests_count": 4,
    }
    assert {name: registry.get_sample_value(name) for name in expected} == expected


async def test_names_are_in_row_key_order(service: Service) -> None:
    """CDAP: `t2` and `t-1` come before `t`, `t_` after."""
    for name in ("t_", "t2", "t-1"):
        await service.create_topic(TopicId("default", name))
    assert await service.topics("default") == ["t-1", "t2", "t", "t_"]
    assert await service.topics("other") == []


class TestManyTopics:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(topics_in_memory_max=10)

    async def test_states_in_memory_are_bounded_and_those_in_use_stay(
        self, service: Service, store: FaultyStore, registry: CollectorRegistry
    ) -> None:
        ids = [TopicId("default", f"t{i}") for i in range(50)]
        for topic_id in ids:
            await service.create_topic(topic_id)
        for _ in range(2):
            await asyncio.gather(*(service.publish(topic_id, [b"x"]) for topic_id in ids))
        await service.topic(ids[0])

        in_memory = registry.get_sample_value("tms_topics_in_memory")
        assert in_memory is not None
        assert in_memory <= 50
        for topic_id in ids:
            assert (await service.page(topic_id, Reading(FIRST_ID, limit=10))).count == 2
        assert registry.get_sample_value("tms_topics_in_memory") == 10
