"""A topic, for asyncio: the whole logic of publishing and polling, on any `Services`.

`tms.client.topic` is the same without `await`.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Literal, overload

import anyio

from tms.client.async_subscription import AsyncSubscription
from tms.client.columns import Batches, batches_of
from tms.client.given_messages import GivenMessages, bodies
from tms.client.poll import Blocks, Tx, blocks_of, reading, singly
from tms.client.resume import AnswerPart, Parts, read_on
from tms.client.retry import may_pass
from tms.client.start import IfLast, Start, last_id_of, place_of, position
from tms.client.stops import Stops
from tms.client.topic_values import ClientRecords, Decode, TopicValues
from tms.core.durations import Duration, whole_seconds_of
from tms.core.errors import TopicExists, TopicNotFound
from tms.core.limits import LIMIT_MAX
from tms.core.message import Message, id_after
from tms.core.messaging import NO_IDS, Messaging, Published, RollbackRange
from tms.core.ranges import Reach, Split, TopicRange
from tms.core.records import Decoding, Encoding, GivenSchema, Record
from tms.core.services import Services
from tms.core.subscriptions import SubscriptionPosition
from tms.core.topic import TTL, TopicId
from tms.core.transaction import Transaction

FOLLOW_WAIT_S = 20.0
"""How long one of `follow`'s polls waits for messages; then it asks again."""
EMPTY_S_MIN = 0.1
"""An empty answer that comes sooner is from a server that waits for nothing any more, because it is
stopping: asking it again at once would only keep it busy."""


class AsyncTopic:
    """A topic of one client, which exists or not. Made by `AsyncClient.topic`.

    Any number of tasks may use it at once. Each method may raise `Unavailable`, `InternalError`.
    """

    def __init__(
        self,
        topic_id: TopicId,
        services: Services,
        records: ClientRecords,
        stops: Stops,
        is_closed: Callable[[], bool],
    ) -> None:
        """Name a topic; nothing is sent."""
        self._id = topic_id
        self._services = services
        self._stops = stops
        self._values = TopicValues(topic_id, records)
        self._is_closed = is_closed

    @property
    def _messaging(self) -> Messaging:
        return self._services.messaging  # asked each time: a child of os.fork() may have none

    def __repr__(self) -> str:
        """Return the class and `namespace:name`."""
        return f"{type(self).__name__}({self._id})"

    @property
    def name(self) -> str:
        """The topic's name within its namespace."""
        return self._id.name

    @property
    def namespace(self) -> str:
        """The namespace that the topic is in."""
        return self._id.namespace

    async def create(
        self, /, ttl: Duration | None = None, *, exist_ok: bool = False, **properties: str | float
    ) -> None:
        """Create the topic, as `tms.Topic.create`."""
        try:
            await self._messaging.create_topic(self._id, _with_ttl(ttl, properties))
        except TopicExists:
            if not exist_ok:
                raise

    async def properties(self) -> dict[str, str]:
        """Return the properties, as `tms.Topic.properties`."""
        return (await self._messaging.topic(self._id)).all_properties()

    async def replace_properties(
        self, /, ttl: Duration | None = None, **properties: str | float
    ) -> None:
        """Replace all properties, as `tms.Topic.replace_properties`."""
        await self._messaging.update_topic(self._id, _with_ttl(ttl, properties))

    async def trim(self, before: Start) -> None:
        """Let expire what is older, as `tms.Topic.trim`."""
        before_ms = int.from_bytes(position(after=None, start=before)[:8])
        await self._messaging.trim_topic(self._id, before_ms)

    async def delete(self) -> None:
        """Delete the topic and its messages, as `tms.Topic.delete`."""
        await self._messaging.delete_topic(self._id)

    async def publish(
        self,
        messages: GivenMessages | Any,
        tx: Tx | None = None,
        *,
        schema: GivenSchema | None = None,
        key_schema: GivenSchema | None = None,
        register: bool = True,
        buffer: bool = False,
        if_last: IfLast | None = None,
    ) -> Published:
        """Publish one message or several, or values by a schema, as `tms.Topic.publish`."""
        if buffer:
            if tx is None:
                raise ValueError("buffer=True is for the messages of a transaction: give tx")
            if if_last is not None:
                raise ValueError("if_last is checked when messages are published, not buffered")
        last = None if if_last is None else last_id_of(if_last)

        async def send(payloads: list[bytes]) -> Published:
            if buffer:
                assert tx is not None
                await self._store(payloads, tx)
                return NO_IDS
            return await self._publish(payloads, tx, last)

        if schema is None and key_schema is None:
            return await send(bodies(messages))
        return await self._values.send(send, messages, Encoding(schema, key_schema, register))

    async def _publish(self, payloads: list[bytes], tx: Tx | None, last: bytes | None) -> Published:
        if tx is None or isinstance(tx, int | Transaction):
            pointer = None if tx is None else _write_pointer(tx)
            return await self._messaging.publish(self._id, payloads, pointer, if_last=last)
        return await tx.gathered.messages.publish(self._messaging, self._id, payloads, last)

    async def encode(
        self,
        values: Any,
        schema: GivenSchema,
        *,
        key_schema: GivenSchema | None = None,
        register: bool = True,
    ) -> list[Message]:
        """Return messages that say values, as `tms.Topic.encode`."""
        return await self._values.encode(values, Encoding(schema, key_schema, register))

    async def decode(
        self, messages: Iterable[Message], how: Decoding | None = None
    ) -> list[Record]:
        """Return the records that messages of the topic are, as `tms.Topic.decode`."""
        return await self._values.decode(messages, how or True)

    async def store(self, messages: GivenMessages, tx: Tx) -> None:
        """Store messages to be published later, as `tms.Topic.store`."""
        await self._store(bodies(messages), tx)

    async def _store(self, payloads: list[bytes], tx: Tx) -> None:
        if isinstance(tx, int | Transaction):
            await self._messaging.store(self._id, payloads, _write_pointer(tx))
        else:
            await tx.gathered.messages.store(self._messaging, self._id, payloads)

    async def rollback(self, published: Published | RollbackRange) -> None:
        """Roll back what one publish wrote, as `tms.Topic.rollback`."""
        written = published.rollback_range if isinstance(published, Published) else published
        if written is None:
            raise ValueError("nothing to roll back: it was published without a transaction")
        await self._messaging.rollback(self._id, written)

    @overload
    def poll(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        limit: int | None = None,
        tx: Tx | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: Start | None = None,
        decode: Literal[False] = False,
    ) -> AsyncGenerator[Message, None]: ...

    @overload
    def poll(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        limit: int | None = None,
        tx: Tx | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: Start | None = None,
        decode: Decode,
    ) -> AsyncGenerator[Record, None]: ...

    def poll(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        limit: int | None = None,
        tx: Tx | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
        end: Start | None = None,
        decode: Decoding | bool = False,
    ) -> AsyncGenerator[Message, None] | AsyncGenerator[Record, None]:
        """Give the messages there are, as `tms.Topic.poll`."""
        blocks = self.poll_blocks(
            after=after,
            start=start,
            limit=limit,
            tx=tx,
            committed=committed,
            wait_s=wait_s,
            end=end,
        )
        return singly(self.decoded(blocks, decode)) if decode else singly(blocks)

    def decoded(self, blocks: Blocks, decode: Decode) -> AsyncGenerator[list[Record], None]:
        """Give runs of messages as runs of records. Raises `PayloadUndecodable`."""
        return self._values.decoded(blocks, decode)

    def poll_arrow(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        end: Start | None = None,
        limit: int | None = None,
        committed: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Give the messages there are as record batches, as `tms.Topic.poll_arrow`."""
        batches = self.poll_batches(
            after=after, start=start, end=end, limit=limit, committed=committed
        )
        return singly(batches)

    async def range(self, *, committed: bool = True) -> TopicRange:
        """Return where the topic begins and stably ends, as `tms.Topic.range`."""
        ranges = await self._services.ranges.ranges((self._id,), committed=committed)
        found = ranges.topics[self._id]
        if found is None:
            raise TopicNotFound(topic=str(self._id))
        return found

    async def splits(self, start: Start, end: Start, parts: int) -> list[Split]:
        """Return parts of about equal size that make up a range, as `tms.Topic.splits`."""
        return list(
            await self._services.ranges.splits(self._id, place_of(start), place_of(end), parts)
        )

    async def reach(
        self,
        start: Start,
        end: Start,
        *,
        messages: int | None = None,
        payload_bytes: int | None = None,
        committed: bool = True,
    ) -> Reach:
        """Return how far so many messages reach, as `tms.Topic.reach`."""
        return await self._services.ranges.reach(
            self._id,
            place_of(start),
            place_of(end),
            messages=messages,
            payload_bytes=payload_bytes,
            committed=committed,
        )

    @overload
    def follow(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        committed: bool = False,
        decode: Literal[False] = False,
    ) -> AsyncGenerator[Message, None]: ...

    @overload
    def follow(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        committed: bool = False,
        decode: Decode,
    ) -> AsyncGenerator[Record, None]: ...

    def follow(
        self,
        *,
        after: Start | None = None,
        start: Start | None = None,
        committed: bool = False,
        decode: Decoding | bool = False,
    ) -> AsyncGenerator[Message, None] | AsyncGenerator[Record, None]:
        """Give messages for ever, as `tms.Topic.follow`."""
        blocks = self.follow_blocks(after=after, start=start, committed=committed)
        return singly(self.decoded(blocks, decode)) if decode else singly(blocks)

    def subscription(self, name: str) -> AsyncSubscription:
        """Return the subscription `name`, as `tms.Topic.subscription`."""
        return AsyncSubscription(self._services, self._stops, self._id, name)

    async def subscriptions(self) -> list[SubscriptionPosition]:
        """Return the positions of all subscriptions, as `tms.Topic.subscriptions`."""
        return list(await self._services.subscriptions.subscriptions(self._id))

    def poll_blocks(
        self,
        *,
        after: Start | None,
        start: Start | None,
        limit: int | None,
        tx: Tx | None,
        committed: bool,
        wait_s: float,
        end: Start | None,
    ) -> Blocks:
        """Give what `poll` gives, in runs as they arrive."""
        until = None if end is None else position(after=None, start=end)
        asked = reading(
            position(after=after, start=start),
            limit,
            tx=tx,
            committed=committed,
            end=until,
            wait_s=wait_s,
        )
        return blocks_of(self._messaging, self._id, asked, self._stops, wait_s)

    def poll_batches(
        self,
        *,
        after: Start | None,
        start: Start | None,
        end: Start | None,
        limit: int | None,
        committed: bool,
    ) -> Batches:
        """Give what `poll_arrow` gives, one in a list."""
        until = None if end is None else position(after=None, start=end)
        first = position(after=after, start=start)
        asked = reading(first, limit, committed=committed, end=until)
        return batches_of(self._messaging, self._id, asked, self._stops)

    def follow_blocks(self, *, after: Start | None, start: Start | None, committed: bool) -> Blocks:
        """Give what `follow` gives, in runs as they arrive."""
        return self._follow(position(after=after, start=start), committed=committed)

    async def _follow(self, next_position: bytes, *, committed: bool) -> Blocks:
        async def open_poll(position: bytes, limit: int | None) -> Parts[list[Message]]:
            asked = reading(position, limit, committed=committed)
            answer = blocks_of(self._messaging, self._id, asked, self._stops, FOLLOW_WAIT_S)
            async with aclosing(answer) as blocks:
                async for block in blocks:
                    yield AnswerPart(block, len(block), block[-1].id)

        def goes_on(error: BaseException) -> bool:
            return may_pass(error) and not self._is_closed()

        while not self._is_closed():
            asked_at_s = anyio.current_time()
            empty = True
            answer = read_on(open_poll, next_position, LIMIT_MAX, when=goes_on, for_s=None)
            async with aclosing(answer) as parts:
                async for part in parts:
                    yield part.run
                    next_position = id_after(part.last_id)
                    empty = False
            if empty and anyio.current_time() < asked_at_s + EMPTY_S_MIN:
                await anyio.sleep(EMPTY_S_MIN)
        raise RuntimeError("the client is closed")


def _with_ttl(ttl: Duration | None, properties: dict[str, str | float]) -> dict[str, object]:
    return {**properties} if ttl is None else {**properties, TTL: whole_seconds_of(ttl)}


def _write_pointer(tx: Transaction | int) -> int:
    return tx if isinstance(tx, int) else tx.write_pointer
