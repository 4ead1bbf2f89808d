"""Messaging over shards: each topic is in one, and lists are of all."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from tms.core.caller import ANYBODY, Caller
from tms.core.commits import NOTHING, CommitRequest
from tms.core.errors import OtherShard, Stopping, Unavailable
from tms.core.limits import Limits
from tms.core.message import MessageBlock
from tms.core.messaging import (
    AllPublished,
    Messaging,
    Page,
    Published,
    RollbackRange,
    Stopped,
)
from tms.core.payload_values import PayloadValues
from tms.core.reading import Isolation, Reading
from tms.core.shards import ShardBy, Sharding
from tms.core.topic import TopicId, TopicMetadata
from tms.core.transaction import Transaction
from tms.sharding.places import ServedMessaging
from tms.sharding.whereabouts import Whereabouts


class ShardedMessaging(Whereabouts[ServedMessaging]):
    """Messaging over the shards of one store. Fulfils `ServedMessaging`."""

    def __init__(
        self,
        sharding: Sharding,
        services: Sequence[ServedMessaging],
        listed: Sequence[Messaging],
        led: Collection[int],
        *,
        limits: Limits,
        values: PayloadValues | None,
        own_transactions: bool,
    ) -> None:
        """Have the services, those by which all topics are listed, and which shards are led here.

        With `own_transactions` a snapshot is good in its shard alone; else it is everywhere.
        """
        super().__init__(sharding, services)
        self._listed = listed
        self._led = led
        self._limits = limits
        self.values = values
        """Checks and decodes values; None if no registry is installed."""
        self._own_transactions = own_transactions

    async def create_topic(
        self,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Create a topic, wherever it is led."""
        await self._asked(topic_id).create_topic(topic_id, properties, caller=caller)

    async def update_topic(
        self, topic_id: TopicId, properties: Mapping[str, object], *, caller: Caller = ANYBODY
    ) -> None:
        """Replace all properties of a topic."""
        await self._of(topic_id).update_topic(topic_id, properties, caller=caller)

    async def trim_topic(
        self, topic_id: TopicId, before_ms: int, *, caller: Caller = ANYBODY
    ) -> None:
        """Let expire what was written to a topic before a time."""
        await self._of(topic_id).trim_topic(topic_id, before_ms, caller=caller)

    async def topic(self, topic_id: TopicId) -> TopicMetadata:
        """Return a topic's metadata, wherever it is led."""
        return await self._asked(topic_id).topic(topic_id)

    def _asked(self, topic_id: TopicId) -> Messaging:
        return self._listed[self._sharding.shard_of(topic_id)]

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        if self._sharding.by is ShardBy.NAMESPACE:
            return await self._services[self._sharding.home(namespace)].topics(namespace)
        names = [name for each in self._listed for name in await each.topics(namespace)]
        return sorted(names, key=lambda name: f"{name}:")

    async def delete_topic(self, topic_id: TopicId, *, caller: Caller = ANYBODY) -> None:
        """Delete a topic and so all of its messages."""
        await self._of(topic_id).delete_topic(topic_id, caller=caller)

    async def publish(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int | None = None,
        *,
        if_last: bytes | None = None,
        caller: Caller = ANYBODY,
    ) -> Published:
        """Publish to a topic. Raises `OtherShard` besides."""
        service = self._of(topic_id)
        if write_pointer is None:
            return await service.publish(topic_id, payloads, if_last=if_last, caller=caller)
        with self._with_topics(write_pointer, (topic_id,)):
            return await service.publish(
                topic_id, payloads, write_pointer, if_last=if_last, caller=caller
            )

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
        request: CommitRequest = NOTHING,
        caller: Caller = ANYBODY,
    ) -> AllPublished:
        """Publish to several topics of one shard. Raises `OtherShard` if they are in several."""
        named = [*publications, *request.topics]
        shards = [self._sharding.shard_of(topic_id) for topic_id in named]
        for topic_id, shard in zip(named, shards, strict=True):
            if shard != shards[0]:
                raise OtherShard(
                    topic=str(topic_id), topic_shard=shard, transaction_shard=shards[0]
                )
        return await self._services[shards[0] if shards else 0].publish_all(
            publications, owner=owner, sequence=sequence, request=request, caller=caller
        )

    async def store(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Store payloads under a write pointer. Raises `OtherShard` besides."""
        with self._with_topics(write_pointer, (topic_id,)):
            await self._of(topic_id).store(topic_id, payloads, write_pointer, caller=caller)

    async def rollback(
        self, topic_id: TopicId, published: RollbackRange, *, caller: Caller = ANYBODY
    ) -> None:
        """Roll back what one publish wrote. Raises `OtherShard` besides."""
        with self._with_topics(published.write_pointer, (topic_id,)):
            await self._of(topic_id).rollback(topic_id, published, caller=caller)

    async def poll(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Give the messages that `reading` asks for, in blocks. Raises `OtherShard` besides."""
        with self._read_by(topic_id, reading):
            async for block in self._of(topic_id).poll(topic_id, reading, wait_s, stopped):
                yield block

    def page_in_memory(self, topic_id: TopicId, reading: Reading) -> Page | None:
        """Return what `page` would, if all of that is in memory and given to everybody."""
        return self._of(topic_id).page_in_memory(topic_id, reading)

    async def page(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
    ) -> Page:
        """Return the next part of a poll. Raises `OtherShard` besides."""
        with self._read_by(topic_id, reading):
            return await self._of(topic_id).page(topic_id, reading, wait_s, stopped)

    def _read_by(self, topic_id: TopicId, reading: Reading) -> AbstractContextManager[None]:
        """Check that a snapshot is of the topic's shard, and tell of an id that is not."""
        view = reading.view
        if isinstance(view, Isolation):
            return nullcontext()
        if not isinstance(view, Transaction):
            return self._with_topics(view, (topic_id,))
        if self._own_transactions:
            self._check_together(topic_id, view.transaction_id)
        return nullcontext()

    def limit_of(self, asked: int | None) -> int:
        """Return the limit in force of a poll."""
        return self._limits.poll_limit(asked)

    def check_ready(self) -> None:
        """Raise `Unavailable` if publishing to every shard would be refused now.

        Of a shard that another server leads, that server knows it.
        """
        refused: Unavailable | None = None
        for shard in range(self._sharding.shards):
            try:
                if shard in self._led:
                    self._services[shard].check_ready()
                else:
                    _ = self._listed[shard]
            except Stopping:
                raise
            except Unavailable as error:
                refused = refused or error
            else:
                return
        if refused is not None:
            raise refused

    def stop_waiting(self) -> None:
        """Let polls that wait for messages answer now, in all shards that are led here."""
        for shard in self._led:
            self._services[shard].stop_waiting()
