"""A topic, for asyncio: the whole logic of publishing and polling, on any `Services`.

`tms.client.topic` is made from it.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Literal, Unpack, overload

from tms.client.async_subscription import AsyncSubscription
from tms.client.columns import batches_of
from tms.client.follow import followed
from tms.client.given_messages import GivenMessages, bodies
from tms.client.poll import (
    FollowOptions,
    PollOptions,
    Runs,
    Tx,
    blocks_of,
    reading,
    singly,
    with_options,
)
from tms.client.start import IfLast, Start, last_id_of, place_of, position
from tms.client.stops import Stops
from tms.client.topic_values import ClientRecords, Decode, TopicValues
from tms.core.durations import Duration, whole_seconds_of
from tms.core.errors import TopicExists, TopicNotFound
from tms.core.message import Message
from tms.core.messaging import NO_IDS, Messaging, Published, RollbackRange
from tms.core.ranges import Reach, Split, TopicRange
from tms.core.reading import isolation_of
from tms.core.records import Decoding, Encoding, GivenSchema, Record
from tms.core.services import Services
from tms.core.subscriptions import SubscriptionPosition
from tms.core.topic import TTL, TopicId
from tms.core.transaction import Transaction


class AsyncTopic:
    """A topic of one client, which exists or not. Made by `AsyncClient.topic`.

    Any number of tasks may use it at once. Besides the errors named, each method may raise
    `Unavailable` (nothing was done; the call may succeed later), `InternalError`, and those that
    change something `OutcomeUnknown` (it may or may not have been done).
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
        """Create the topic. With `exist_ok`, one that is there stays as it is.

        `ttl` is how long messages live, in seconds or as `"7d"`; None is the server's default, a
        week unless it is set otherwise. `properties` are yours, kept as strings. Not repeated where
        it may have been carried out. Raises `TopicExists`, `InvalidRequest` (invalid_ttl,
        invalid_properties).
        """
        try:
            await self._messaging.create_topic(self._id, _with_ttl(ttl, properties))
        except TopicExists:
            if not exist_ok:
                raise

    async def properties(self) -> dict[str, str]:
        """Return all properties as strings, `ttl` in seconds and `generation` among them.

        Repeated while the server is unavailable. Raises `TopicNotFound`.
        """
        return (await self._messaging.topic(self._id)).all_properties()

    async def replace_properties(
        self, /, ttl: Duration | None = None, **properties: str | float
    ) -> None:
        """Give the topic these properties and no others.

        Properties not given are gone, and `ttl`, given as to `create`, is the server's default
        again. Repeated while the server is unavailable. Raises `TopicNotFound`, `InvalidRequest`.
        """
        await self._messaging.update_topic(self._id, _with_ttl(ttl, properties))

    async def trim(self, before: Start) -> None:
        """Let expire all messages from before a time, or before the time of a message or an id.

        Of a stored message the time counts at which it was stored. Nobody is given them any more,
        and cleanup takes them out of the store. Repeated while the server is unavailable. Raises
        `TopicNotFound`, `InvalidTrimTime` for a time that has not come.
        """
        before_ms = int.from_bytes(position(after=None, start=before)[:8])
        await self._messaging.trim_topic(self._id, before_ms)

    async def delete(self) -> None:
        """Delete the topic and all its messages. Raises `TopicNotFound`, `OutcomeUnknown`."""
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
        """Publish one message or several in order, all or none; they are durable on return.

        A message is its payload, or `Message(payload, key=…, headers=…)`. Return their ids, as a
        sequence of 20 bytes each.

        With a `schema`, values are given instead, each by itself or as
        `Record(value, key=…, headers=…)`: one, or a list of them. They are encoded in Confluent's
        wire format, by Avro's text, by "latest" of the topic's subject, or as docs/schemas.md says.
        The schema is registered under the topic's subject, or with `register=False` found there.
        `key_schema` is that of the keys. A value that does not fit is `PayloadRefused`
        (value_unfit), which names it; nothing is published.

        `tx` makes them part of a transaction, which rolls them back should it fail. They are sent
        at once all the same; with `buffer=True` to where nobody sees them, and published with one
        entry a topic when the transaction commits, which is cheaper for many. Where the transaction
        is one from elsewhere, a `Transaction` or a write pointer, the caller rolls back, by handing
        to `rollback` what is returned; and publishes in the end what was buffered:
        `publish([], tx)`, which may be repeated. Buffered messages have no ids yet, so none are
        returned, nor when they are published.

        With `if_last`, a message or an id, it is done only if the topic has no entry behind that;
        with "empty", only if it has none. Every entry counts, also one that is rolled back, in
        progress or expired. If not, `TopicMoved` is raised: read on from there, and decide anew.

        Repeated only where the server certainly did not carry it out; where the connection broke
        after it was sent, `OutcomeUnknown` is raised, publishing again may give the messages twice,
        and a transaction does not commit any more. Raises also `TopicNotFound`, `TooLarge`,
        `TopicMoved`, `TransactionExpired`, `TransactionNotInProgress`, `TransactionUnknown`,
        `InvalidRequest` (empty_publish, invalid_write_pointer), `ValueError` for `buffer` without
        `tx`, `RuntimeError` for a transaction that has ended, and `TypeError` for a message that is
        neither bytes nor a `Message`.
        """
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
        """Return messages that say values, to be published by whatever means.

        The values and schemas are those of `publish`. Raises `PayloadRefused`, `SchemaRefused`,
        `TopicNotFound`.
        """
        return await self._values.encode(values, Encoding(schema, key_schema, register))

    async def decode(
        self, messages: Iterable[Message], how: Decoding | None = None
    ) -> list[Record]:
        """Return the records that messages of the topic are, from wherever they come.

        Raises `PayloadUndecodable`, unless `how` gives damaged ones as records with an error.
        """
        return await self._values.decode(messages, how or Decoding())

    async def store(self, messages: GivenMessages, tx: Tx) -> None:
        """Store messages, at least one, to be published later; durable on return.

        The same as `publish(messages, tx, buffer=True)`.
        """
        await self._store(bodies(messages), tx)

    async def _store(self, payloads: list[bytes], tx: Tx) -> None:
        if isinstance(tx, int | Transaction):
            await self._messaging.store(self._id, payloads, _write_pointer(tx))
        else:
            await tx.gathered.messages.store(self._messaging, self._id, payloads)

    async def rollback(self, published: Published | RollbackRange) -> None:
        """Roll back what a transactional publish wrote: transactions do not see it any more.

        `published` is what `publish` returned, or its `rollback_range`. Doing it twice is the same
        as once, so it is repeated while the server is unavailable. Raises `TopicNotFound`,
        `RollbackRefused`, `ValueError` where it was published without a transaction.
        """
        written = published.rollback_range if isinstance(published, Published) else published
        if written is None:
            raise ValueError("nothing to roll back: it was published without a transaction")
        await self._messaging.rollback(self._id, written)

    @overload
    def poll(
        self, *, decode: Literal[False] = False, **options: Unpack[PollOptions]
    ) -> AsyncGenerator[Message, None]: ...

    @overload
    def poll(
        self, *, decode: Decode, **options: Unpack[PollOptions]
    ) -> AsyncGenerator[Record, None]: ...

    @with_options
    def poll(
        self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]
    ) -> AsyncGenerator[Message, None] | AsyncGenerator[Record, None]:
        """Give the messages there are, oldest first, then end.

        They begin behind `after` or at `start`, each a `Message`, a message id (20 bytes, 40
        hexadecimal digits or a `MessageId`) or a publish time (milliseconds, not seconds, since
        1970 or a datetime with a time zone); with neither, at the oldest. `limit` is how many at
        most; None is all, as far as one poll of the server goes (its `poll_messages_max`, a million
        by default). Nothing is given from `end` on. Where there are none, wait up to `wait_s`
        seconds for some.

        Without a transaction all messages are given, those in progress and rolled back included.
        With `tx` only what that transaction can see, its own included, and with `committed` what is
        committed now: both skip what was rolled back or is invalid, and end before the first that
        is in progress, so that no message is given before an earlier one.

        With `decode=True` or a `Decoding`, records are given instead: values by the schemas that
        the payloads name. A message that cannot be decoded is `PayloadUndecodable`, behind whose id
        one can go on.

        Messages arrive while you take them; nothing is asked for before the first. A broken
        connection is taken up again after the last message given. Raises `TopicNotFound`,
        `InvalidRequest` (invalid_message_id, invalid_start_time, start_time_in_seconds,
        invalid_limit, invalid_wait), with `tx` `TransactionNotInProgress` and `TransactionUnknown`;
        `ValueError` for both `after` and `start`, both `tx` and `committed`, both `end` and
        `wait_s`, or a datetime without a time zone.
        """
        return singly(self.poll_runs(decode=decode, **options))

    def poll_runs(self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]) -> Runs:
        """Give what `poll` gives, in runs as they arrive."""
        wait_s = options.get("wait_s", 0.0)
        blocks = blocks_of(self._messaging, self._id, reading(**options), self._stops, wait_s)
        return self._values.decoded(blocks, how=decode)

    @with_options
    def poll_arrow(self, **options: Unpack[PollOptions]) -> AsyncGenerator[Any, None]:
        """Give what `poll` gives as record batches of pyarrow's, of about 10,000 messages.

        The options are those of `poll`. The columns are `message_id`, `timestamp`, `seq`,
        `payload`, `payload_timestamp`, `payload_seq`, `key`, `headers`
        (`tms.arrow.polled.FRAMES_SCHEMA`). Needs the extra `arrow`: without it,
        `ModuleNotFoundError` is raised.
        """
        return singly(self.poll_arrow_runs(**options))

    def poll_arrow_runs(self, **options: Unpack[PollOptions]) -> Runs:
        """Give what `poll_arrow` gives, one in a list."""
        wait_s = options.get("wait_s", 0.0)
        return batches_of(self._messaging, self._id, reading(**options), self._stops, wait_s)

    async def range(self, *, committed: bool = True) -> TopicRange:
        """Return where the topic begins now, and an end below which nothing is ever added.

        With `committed`, the end is before the first message of a transaction in progress; without,
        it is for readers of all messages. Raises `TopicNotFound`.
        """
        ranges = await self._services.ranges.ranges((self._id,), isolation_of(committed=committed))
        found = ranges.topics[self._id]
        if found is None:
            raise TopicNotFound(topic=str(self._id))
        return found

    async def splits(self, start: Start, end: Start, parts: int) -> list[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end.

        Both ends are places as `range` gives them, or as `poll` takes them. Nothing is read for it.
        Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
        """
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
        """Return the furthest end, at most `end`, that so many messages and bytes reach.

        At least one message, where there is one; None is no bound. `start` and `end` are places as
        those of `splits`. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
        """
        return await self._services.ranges.reach(
            self._id,
            place_of(start),
            place_of(end),
            messages=messages,
            payload_bytes=payload_bytes,
            isolation=isolation_of(committed=committed),
        )

    @overload
    def follow(
        self, *, decode: Literal[False] = False, **options: Unpack[FollowOptions]
    ) -> AsyncGenerator[Message, None]: ...

    @overload
    def follow(
        self, *, decode: Decode, **options: Unpack[FollowOptions]
    ) -> AsyncGenerator[Record, None]: ...

    @with_options
    def follow(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> AsyncGenerator[Message, None] | AsyncGenerator[Record, None]:
        """Give the messages there are and those to come, for ever, each once and in order.

        `after`, `start`, `committed` and `decode` are those of `poll`. While the server is away
        this waits for it, and then goes on behind the last message given. Raises `TopicNotFound`
        when the topic is deleted, and what `poll` raises.
        """
        return singly(self.follow_runs(decode=decode, **options))

    def follow_runs(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> Runs:
        """Give what `follow` gives, in runs as they arrive."""
        first = reading(**options)
        blocks = followed(self._services, self._id, first, self._stops, self._is_closed)
        return self._values.decoded(blocks, how=decode)

    def subscription(self, name: str) -> AsyncSubscription:
        """Return the subscription `name`, which exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        return AsyncSubscription(self._services, self._stops, self._id, name)

    async def subscriptions(self) -> list[SubscriptionPosition]:
        """Return the positions of all its subscriptions, sorted by name. Raises `TopicNotFound`."""
        return list(await self._services.subscriptions.subscriptions(self._id))


def _with_ttl(ttl: Duration | None, properties: dict[str, str | float]) -> dict[str, object]:
    return {**properties} if ttl is None else {**properties, TTL: whole_seconds_of(ttl)}


def _write_pointer(tx: Transaction | int) -> int:
    return tx if isinstance(tx, int) else tx.write_pointer
