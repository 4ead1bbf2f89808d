"""Publishing to several topics at once: all or nothing, and once, on any store."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.transactions.reading import SHORT, A, B, everything, polled
from tms.core.clock import ManualClock
from tms.core.errors import (
    InvalidRequest,
    StoreNotAtomic,
    TopicNotFound,
)
from tms.core.limits import Limits
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.node import OpenServices, services_on

pytestmark = pytest.mark.anyio


class PartlyWritingStore(MemoryStore):
    """A store that does not promise to write a batch whole."""

    atomic = False


class TestStoreThatIsNotAtomic:
    @pytest.fixture
    async def services(self, clock: ManualClock) -> AsyncIterator[OpenServices]:
        tables = StoreTables(PartlyWritingStore())
        services = await services_on(tables, Limits(), clock, CollectorRegistry())
        for topic_id in (A, B):
            await services.messaging.create_topic(topic_id)
        yield services
        await services.close()

    async def test_publishing_to_all_is_committed_behind_its_messages(
        self, services: OpenServices
    ) -> None:
        first = await services.messaging.publish_all({A: [b"1"], B: [b"2"]}, owner="p", sequence=0)
        assert (await polled(services, A), await polled(services, B)) == ([b"1"], [b"2"])
        again = await services.messaging.publish_all({A: [b"1"], B: [b"2"]}, owner="p", sequence=0)
        assert (again.write_pointer, again.is_duplicate) == (first.write_pointer, True)

    async def test_what_was_published_of_all_is_not_seen_where_the_rest_fails(
        self, services: OpenServices
    ) -> None:
        with pytest.raises(TopicNotFound):
            await services.messaging.publish_all({A: [b"1"], TopicId("default", "none"): [b"2"]})
        assert await polled(services, A) == []
        assert await services.transactions.in_progress() == []

    async def test_a_commit_that_moves_positions_is_refused(self, services: OpenServices) -> None:
        await services.subscriptions.create_subscription(A, "s")
        tx = await services.transactions.start(SHORT)
        with pytest.raises(StoreNotAtomic):
            await services.transactions.commit(
                tx.transaction_id, [Advance(A, "s", b"\x01" * 20, 0)]
            )
        await services.transactions.commit(tx.transaction_id)


class TestPublishAll:
    async def test_it_is_seen_whole(self, services: OpenServices) -> None:
        reader = await services.transactions.start(SHORT)
        done = await services.messaging.publish_all({A: [b"1", b"2"], B: [b"3"]})
        assert not done.is_duplicate
        assert await polled(services, A) == [b"1", b"2"]
        assert await polled(services, B) == [b"3"]
        assert await polled(services, A, transaction=reader.transaction_id) == []
        assert await services.transactions.in_progress() == [
            await services.transactions.info(reader.transaction_id)
        ]

    async def test_a_topic_that_is_missing_refuses_all(self, services: OpenServices) -> None:
        with pytest.raises(TopicNotFound):
            await services.messaging.publish_all({A: [b"1"], TopicId("default", "none"): [b"2"]})
        assert await everything(services, A) == []

    @pytest.mark.parametrize("payloads", [{}, {A: []}])
    async def test_nothing_to_publish_is_refused(
        self, services: OpenServices, payloads: dict[TopicId, list[bytes]]
    ) -> None:
        with pytest.raises(InvalidRequest):
            await services.messaging.publish_all(payloads)

    async def test_a_sequence_is_published_once(self, services: OpenServices) -> None:
        first = await services.messaging.publish_all({A: [b"1"]}, owner="p", sequence=0)
        again = await services.messaging.publish_all({A: [b"1"]}, owner="p", sequence=0)
        assert again.is_duplicate
        assert again.write_pointer == first.write_pointer
        assert await everything(services, A) == [b"1"]
