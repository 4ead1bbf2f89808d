"""Messaging over shards: lists of topics, access to topics of any shard, publishes to several."""

from collections.abc import Collection, Mapping, Sequence

from tms.core.errors import OtherShard, Stopping, Unavailable
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.messaging import AllPublished, Messaging, MessagingService
from tms.core.services.payload_values import PayloadValues
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.shards import Sharding
from tms.core.values.topic import TopicId, TopicMetadata


class ShardedMessaging:
    """The part of `MessagingService` that belongs to no single shard."""

    def __init__(
        self,
        sharding: Sharding,
        services: Sequence[MessagingService],
        listed: Sequence[Messaging],
        led: Collection[int],
        values: PayloadValues | None,
    ) -> None:
        """Use `services`, `listed` for lists of topics, and `led`, the shards led here."""
        self._sharding = sharding
        self._services = services
        self._listed = listed
        self._led = led
        self.values = values
        """Checks and decodes values; None if no registry is installed."""

    async def create_topic(
        self,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Create a topic, wherever its leader is."""
        shard = self._listed[self._sharding.shard_of(topic_id)]
        await shard.create_topic(topic_id, properties, caller=caller)

    async def topic(self, topic_id: TopicId) -> TopicMetadata:
        """Return a topic's metadata, wherever its leader is."""
        return await self._listed[self._sharding.shard_of(topic_id)].topic(topic_id)

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        names = [name for each in self._listed for name in await each.topics(namespace)]
        return sorted(names, key=lambda name: f"{name}:")

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

    def check_ready(self) -> None:
        """Raise `Unavailable` if publishing to every shard would be refused now.

        Does not check shards that other servers lead; those do.
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
