"""Publishing to several topics at once is all or nothing, and done once, on any store."""

import asyncio

import pytest

from tests.transactions.reading import SHORT, A, B, everything, polled
from tms.core.errors import InvalidRequest, OwnerNotFound, TopicNotFound
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices

pytestmark = pytest.mark.anyio


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

    async def test_an_owner_may_be_forgotten_while_it_publishes(
        self, services: OpenServices
    ) -> None:
        """A sequence is published again only if its owner was forgotten in between."""
        ann = Caller("ann")

        async def publish(sequence: int) -> bool:
            body = {A: [b"%d" % sequence]}
            done = await services.messaging.publish_all(
                body, owner="p", sequence=sequence, caller=ann
            )
            return not done.is_duplicate

        async def forget() -> bool:
            try:
                await services.transactions.forget_owner("p", caller=ann)
            except OwnerNotFound:
                return False
            return True

        new = forgotten = 0
        for sequence in range(20):
            asked = [publish(sequence), forget(), publish(sequence), forget(), publish(sequence)]
            first, gone, second, gone_too, third = await asyncio.gather(*asked)
            assert first, "what was forgotten, or is higher, is not a duplicate"
            new += first + second + third
            forgotten += gone + gone_too
            assert (second, third) == (gone, gone_too)
        assert len(await everything(services, A)) == new == 20 + forgotten
        assert [each.sequence for each in await services.transactions.owners()] == [19]
