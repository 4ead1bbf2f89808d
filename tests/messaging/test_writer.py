"""The group-commit writer: shared flushes, a bounded queue, failing stores."""

import asyncio
import gc
from contextlib import suppress
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC, FaultyStore
from tests.messaging.polled import payloads, polled, settle
from tests.objects_in_memory import objects_of
from tms.core.errors import (
    OutcomeUnknown,
    QueueFull,
    Stopping,
    StoreUnavailable,
    TopicMoved,
    TopicNotFound,
)
from tms.core.limits import Limits
from tms.core.services.messaging import Published
from tms.core.values.caller import Caller
from tms.core.values.message import id_after
from tms.messaging.service import Service
from tms.messaging.write_requests import Publication

pytestmark = pytest.mark.anyio
POINTER = NOW_MS * 1_000_000


async def test_requests_that_come_during_a_flush_share_the_next_one(
    service: Service, store: FaultyStore
) -> None:
    store.passed.clear()
    first = asyncio.create_task(service.publish(TOPIC, [b"0"]))
    await settle()
    others = [asyncio.create_task(service.publish(TOPIC, [b"%d" % i])) for i in range(1, 20)]
    await settle()
    assert not first.done()
    store.passed.set()
    await asyncio.gather(first, *others)

    assert store.batches == [1, 19]
    assert await payloads(service) == [b"%d" % i for i in range(20)]


async def test_of_many_large_requests_half_is_written_while_the_others_come(
    service: Service, store: FaultyStore
) -> None:
    large = [b"x" * 1000] * 20
    callers = 32

    async def publish_thrice() -> None:
        for _ in range(3):
            await service.publish(TOPIC, large)

    await asyncio.gather(*(publish_thrice() for _ in range(callers)))

    requests = [rows // len(large) for rows in store.batches]
    assert sum(requests) == 3 * callers
    assert max(requests) == callers // 2
    assert len(await payloads(service)) == 3 * callers * len(large)


LARGE = [b"x" * 1024] * 1024


async def test_large_requests_wait_while_the_store_is_behind_and_small_ones_do_not(
    service: Service, store: FaultyStore
) -> None:
    store.behind = True
    large = [asyncio.create_task(service.publish(TOPIC, LARGE)) for _ in range(2)]
    await settle()
    for number in range(3):
        await service.publish(TOPIC, [b"%d" % number])
    assert store.batches == [1, 1, 1]
    assert not any(each.done() for each in large)

    store.behind = False
    await asyncio.gather(*large)
    assert store.batches == [1, 1, 1, len(LARGE), len(LARGE)]


async def test_a_service_that_closes_writes_what_waits_for_the_store(
    service: Service, store: FaultyStore
) -> None:
    store.behind = True
    large = asyncio.create_task(service.publish(TOPIC, LARGE))
    await settle()
    await service.close()

    assert len(await large) == len(LARGE)


async def test_a_request_has_contiguous_ids_among_many(service: Service) -> None:
    ranges = await asyncio.gather(
        *(service.publish(TOPIC, [b"x"] * 5, POINTER + i) for i in range(50))
    )

    spans = sorted(
        ((r.start_timestamp, r.start_sequence_id), (r.end_timestamp, r.end_sequence_id))
        for r in (published.rollback_range for published in ranges)
        if r is not None
    )
    assert len(spans) == 50
    assert all(end[1] - start[1] == 4 for start, end in spans)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(spans))


async def test_all_kinds_of_publications_share_a_flush(
    service: Service, store: FaultyStore
) -> None:
    """Plain ones are appended together, after the others, which are appended one by one."""
    await service.publish(TOPIC, [b"before"])
    last = (await polled(service))[-1][0]
    await service.store(TOPIC, [b"stored"], POINTER + 1)
    store.batches.clear()
    store.passed.clear()
    publications = [
        service.publish(TOPIC, [b"waits"]),
        service.publish(TOPIC, [b"0", b"1"]),
        service.publish(TOPIC, [b"tagged"], POINTER),
        service.publish(TOPIC, [b"2"]),
        service.publish(TOPIC, [b"moved"], if_last=last),
        service.publish(TOPIC, [], POINTER + 1),
        service.publish(TOPIC, [b"large", b"x" * 40_000]),
        service.publish(TOPIC, [b"3", b"4", b"5"]),
    ]
    tasks = [asyncio.ensure_future(each) for each in publications[:1]]
    await settle()
    tasks += [asyncio.ensure_future(each) for each in publications[1:]]
    await settle()
    store.passed.set()
    told = await asyncio.gather(*tasks, return_exceptions=True)

    assert store.batches in ([1, 10], [1, 9, 1]), "the reference is looked for meanwhile"
    assert isinstance(told[4], TopicMoved), "what waited was written before"
    found = await polled(service)
    assert [message_id for message_id, _ in found] == sorted({id_ for id_, _ in found})
    by_id = dict(found)
    published = [each for each in told if isinstance(each, Published)]
    texts = [[by_id.get(id_, b"")[:6] for id_ in each] for each in published]
    assert [*texts[:4], *texts[5:]] == [
        [b"waits"],
        [b"0", b"1"],
        [b"tagged"],
        [b"2"],
        [b"large", b"xxxxxx"],
        [b"3", b"4", b"5"],
    ]
    assert len(found) == 1 + 1 + 2 + 1 + 1 + 1 + 2 + 3
    assert await service.cache_check().problems("", 10) == ([], 1, None)


async def test_nothing_is_shown_before_it_is_durable(service: Service, store: FaultyStore) -> None:
    store.passed.clear()
    publishing = asyncio.create_task(service.publish(TOPIC, [b"x"]))
    await settle()
    assert await polled(service) == []
    store.passed.set()
    await publishing
    assert await payloads(service) == [b"x"]


class TestFullQueue:
    @pytest.fixture(params=["requests", "bytes"])
    def limits(self, request: pytest.FixtureRequest) -> Limits:
        if request.param == "requests":
            return Limits(queue_requests_max=3)
        return Limits(queue_bytes_max=350, request_bytes_max=350, message_bytes_max=350)

    async def test_it_refuses_and_loses_nothing(
        self, service: Service, store: FaultyStore, registry: CollectorRegistry
    ) -> None:
        store.passed.clear()
        accepted = [asyncio.create_task(service.publish(TOPIC, [b"0"]))]
        await settle()
        accepted += [asyncio.create_task(service.publish(TOPIC, [b"%d" % i])) for i in (1, 2, 3)]
        await settle()
        for _ in range(2):
            with pytest.raises(QueueFull):
                await service.publish(TOPIC, [b"refused"])
        store.passed.set()
        await asyncio.gather(*accepted)

        assert await payloads(service) == [b"0", b"1", b"2", b"3"]
        assert registry.get_sample_value("tms_rejected_requests_total") == 2
        assert registry.get_sample_value("tms_queue_bytes") == 0
        await service.publish(TOPIC, [b"4"])
        assert (await payloads(service))[-1] == b"4"

    async def test_one_caller_does_not_fill_it_for_others(
        self, service: Service, store: FaultyStore
    ) -> None:
        def publishing(text: str, who: str) -> "asyncio.Task[Published]":
            return asyncio.create_task(service.publish(TOPIC, [text.encode()], caller=Caller(who)))

        store.passed.clear()
        accepted = [publishing("0", "ann")]
        await settle()
        accepted += [publishing("1 small", "ann"), publishing("2 small", "ann")]
        await settle()
        refused = publishing("3 small", "ann")
        accepted.append(publishing("4", "bob"))
        await settle()
        store.passed.set()
        await asyncio.gather(*accepted)
        with pytest.raises(QueueFull):
            await refused
        assert [each[:1] for each in await payloads(service)] == [b"0", b"1", b"2", b"4"]


class TestFailingStore:
    async def test_all_of_the_flush_fail_and_the_next_one_works(
        self, service: Service, store: FaultyStore
    ) -> None:
        await service.publish(TOPIC, [b"before"])
        store.writes_fail = True
        outcomes = await asyncio.gather(
            *(service.publish(TOPIC, [b"lost"]) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        assert await payloads(service) == [b"before"]
        store.writes_fail = False
        await service.publish(TOPIC, [b"after"])

        assert await payloads(service) == [b"before", b"after"]

    async def test_nothing_of_a_flush_that_failed_waits_for_the_cyclic_collector(
        self, service: Service, store: FaultyStore
    ) -> None:
        await service.publish(TOPIC, [b"before"])
        store.writes_fail = True
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                with suppress(OutcomeUnknown, StoreUnavailable):
                    await service.publish(TOPIC, [b"lost"])
            store.writes_fail = False
            await service.publish(TOPIC, [b"after"])
            await settle()
            assert not [each for each in objects_of(Publication) if each._payloads == [b"lost"]]
        finally:
            gc.enable()

    async def test_what_failed_but_happened_is_below_all_that_follows(
        self, service: Service, store: FaultyStore
    ) -> None:
        """A reader never sees a gap fill: rows in doubt become visible before newer ones."""
        await service.publish(TOPIC, [b"before"])
        store.writes_fail = store.writes_happen_all_the_same = True
        with pytest.raises(OutcomeUnknown):
            await service.publish(TOPIC, [b"doubtful"])
        seen = await polled(service)
        store.writes_fail = store.writes_happen_all_the_same = False
        await service.publish(TOPIC, [b"after"])

        assert [payload for _, payload in seen] == [b"before", b"doubtful"]
        assert await payloads(service) == [b"before", b"doubtful", b"after"]
        assert (await polled(service))[:2] == seen
        assert await polled(service, id_after(seen[-1][0])) == (await polled(service))[2:]

    async def test_a_failed_rollback_leaves_cache_and_table_alike(
        self, service: Service, store: FaultyStore
    ) -> None:
        published = (await service.publish(TOPIC, [b"x"], POINTER)).rollback_range
        assert published is not None
        store.writes_fail = True
        with pytest.raises(OutcomeUnknown):
            await service.rollback(TOPIC, published)
        store.writes_fail = False

        assert await payloads(service) == [b"x"]
        await service.rollback(TOPIC, published)
        assert await payloads(service) == [b"x"]


async def test_a_topic_deleted_while_a_request_waits_fails_it(
    service: Service, store: FaultyStore
) -> None:
    await service.publish(TOPIC, [b"before"])
    store.passed.clear()
    deleting = asyncio.create_task(service.delete_topic(TOPIC))
    await settle()
    being_written = asyncio.create_task(service.publish(TOPIC, [b"being written"]))
    await settle()
    waiting = asyncio.create_task(service.publish(TOPIC, [b"waits"]))
    await settle()
    store.passed.set()
    await asyncio.gather(deleting, being_written)

    with pytest.raises(TopicNotFound):
        await waiting
    await service.create_topic(TOPIC)
    assert await payloads(service) == []


async def test_a_caller_that_goes_does_not_take_its_request_along(
    service: Service, store: FaultyStore
) -> None:
    store.passed.clear()
    publishing = asyncio.create_task(service.publish(TOPIC, [b"x"]))
    await settle()
    publishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publishing
    store.passed.set()
    await service.publish(TOPIC, [b"y"])

    assert await payloads(service) == [b"x", b"y"]


async def test_closing_writes_what_is_queued_and_refuses_the_rest(
    service: Service, store: FaultyStore
) -> None:
    store.passed.clear()
    publishing = [asyncio.create_task(service.publish(TOPIC, [b"x"])) for _ in range(3)]
    await settle()
    closing = asyncio.create_task(service.close())
    await settle()
    with pytest.raises(Stopping):
        await service.publish(TOPIC, [b"late"])
    store.passed.set()
    await asyncio.gather(closing, *publishing)

    assert sum(store.batches) == 3


async def test_many_publishers_at_once_lose_nothing(service: Service, clock: ManualClock) -> None:
    async def publish(publisher: int) -> list[bytes]:
        ids: list[bytes] = []
        for i in range(30):
            clock.advance(-1 if i % 7 == 0 else 1)
            ids += await service.publish(TOPIC, [b"%d/%d" % (publisher, i)])
        return ids

    told = await asyncio.gather(*(publish(publisher) for publisher in range(20)))

    found = await polled(service)
    assert sorted(message_id for ids in told for message_id in ids) == [id_ for id_, _ in found]
    assert len(found) == 600
    assert [message_id for message_id, _ in found] == sorted({id_ for id_, _ in found})
    for publisher in range(20):
        own = [p for _, p in found if p.startswith(b"%d/" % publisher)]
        assert own == [b"%d/%d" % (publisher, i) for i in range(30)]
