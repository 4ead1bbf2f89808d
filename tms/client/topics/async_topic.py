"""A topic, for asyncio: all logic of publishing and polling, on any `Services`.

`tms.client.topics.topic` is made from it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Literal, Unpack, overload

from tms.client.groups.async_group import AsyncTopicGroup
from tms.client.groups.client_parts import ClientParts, with_ttl
from tms.client.reading.columns import batches_of
from tms.client.reading.follow import ReaderPlace, followed
from tms.client.reading.given_messages import GivenMessages, bodies, with_key
from tms.client.reading.half_read import AsyncMessages, Generated, HalfRead
from tms.client.reading.poll import (
    FollowOptions,
    PollOptions,
    Runs,
    Tx,
    blocks_of,
    polled,
    reading,
    with_options,
)
from tms.client.reading.start import IfLast, Start, place_of, position
from tms.client.reading.topic_values import Decode, TopicValues
from tms.client.topics.async_subscription import AsyncSubscription
from tms.client.topics.publishing import Publishing, delivery_of, store
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.errors import NotPermitted, TopicExists, TopicNotFound
from tms.core.runtime.deadlines import deadline
from tms.core.services.messaging import Messaging, Published, RollbackRange
from tms.core.services.records import Decoding, Encoding, GivenSchema, Record
from tms.core.text.durations import Duration
from tms.core.values.groups import Group
from tms.core.values.message import Message
from tms.core.values.ranges import Reach, Split, TopicRange
from tms.core.values.reading import isolation_of
from tms.core.values.schedules import (
    LISTED_DEFAULT,
    CommitSchedule,
    Scheduled,
    ScheduledMessage,
)
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId


class AsyncTopic:
    """A topic of one client, whether it exists or not. Made by `AsyncClient.topic`.

    Any number of tasks may use it at once. In addition to the errors named, each method may raise
    `Unavailable` (nothing was done; the call may succeed later), `InternalError`, and those that
    change something `OutcomeUnknown` (it may or may not have been done).
    """

    def __init__(self, topic_id: TopicId, parts: ClientParts) -> None:
        """Name a topic; nothing is sent."""
        self._id = topic_id
        self._parts = parts
        self._services = parts.services
        self._stops = parts.stops
        self._values = TopicValues(topic_id, parts.records)

    @property
    def _messaging(self) -> Messaging:  # each time, because a child of os.fork() may have none
        return self._services.messaging

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
        """Create the topic. With `exist_ok`, an existing topic is left unchanged.

        The right to see it (`describe`) is then enough.

        `ttl` is how long messages live, in seconds or as `"7d"`; None is the server's default,
        which is a week unless it is set otherwise. `properties` are yours, kept as strings. Not
        repeated if it may have been carried out. Raises `TopicExists`, `InvalidRequest`
        (invalid_ttl, invalid_properties).
        """
        try:
            await self._messaging.create_topic(self._id, with_ttl(ttl, properties))
        except (TopicExists, NotPermitted) as refused:
            if not exist_ok or not (isinstance(refused, TopicExists) or await self._is_seen()):
                raise

    async def _is_seen(self) -> bool:
        with suppress(TopicNotFound, NotPermitted):
            return bool(await self._messaging.topic(self._id))
        return False

    async def properties(self) -> dict[str, str]:
        """Return all properties as strings, `ttl` in seconds and `generation` among them.

        Repeated while the server is unavailable. Raises `TopicNotFound`.
        """
        return (await self._messaging.topic(self._id)).all_properties()

    async def replace_properties(
        self, /, ttl: Duration | None = None, **properties: str | float
    ) -> None:
        """Replace the properties of the topic.

        Properties that are not given are removed. `ttl` is as in `create`; without it, the server's
        default applies again. Repeated while the server is unavailable. Raises `TopicNotFound`,
        `InvalidRequest`.
        """
        await self._messaging.update_topic(self._id, with_ttl(ttl, properties))

    async def trim(self, before: Start) -> None:
        """Expire all messages that are older than a time, a message or an id.

        For a buffered message of a transaction, the time at which it was stored counts. Readers no
        longer get expired messages, and cleanup deletes them. Repeated while the server is
        unavailable. Raises `TopicNotFound`, `InvalidTrimTime` for a time in the future.
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
        key: Any = None,
        headers: Mapping[str, bytes] | None = None,
        schema: GivenSchema | None = None,
        key_schema: GivenSchema | None = None,
        register: bool = True,
        buffer: bool = False,
        if_last: IfLast | None = None,
        timeout_s: Duration | None = None,
    ) -> Published:
        """Publish one message or several in order, all or none; they are durable on return.

        A message is its payload, or `Message(payload, key=…, headers=…)`; for a single message,
        `key` and `headers` may also be arguments. Returns the ids, 20 bytes each.

        With a `schema`, give values instead, each by itself or as
        `Record(value, key=…, headers=…)`: one value, or a list of them. They are encoded in
        Confluent's wire format. `schema` is Avro's text, "latest" of the topic's subject, or
        another form that docs/schemas.md names. It is registered under the topic's subject; with
        `register=False` it must exist there. `key_schema` is the schema of the keys. If a value
        does not fit, nothing is published.

        `tx` makes them part of a transaction, which rolls them back if it fails. They are still
        sent at once. With `buffer=True` they are stored out of sight of readers, and published with
        one entry for each topic when the transaction commits, which is cheaper for many messages.
        If `tx` is a `Transaction` or a write pointer, so one that began elsewhere, the caller rolls
        back by passing the returned value to `rollback`, and publishes the buffered messages at the
        end by `publish([], tx)`, which may be repeated. Buffered messages have no ids yet, so none
        are returned, then or when they are published.

        With `if_last`, a message or an id, they are published only if the topic has no entry after
        that; with "empty", only if it has no entry. Every entry counts, even one that is rolled
        back, in progress or expired. Otherwise `TopicMoved` is raised: read the new messages, and
        decide again.

        Repeated only if the server certainly did not carry it out. If there is no answer after it
        was sent, `OutcomeUnknown` is raised: then publishing again may write the messages twice,
        and a transaction can no longer commit. By default one answer may take the `timeout_s` of
        `connect`; the `timeout_s` of a call limits the whole call, including repetitions. If it
        ends before anything is sent, `Unavailable` is raised. Raises also `TopicNotFound`,
        `TooLarge`, `PayloadRefused`, `TransactionExpired`, `TransactionNotInProgress`,
        `TransactionUnknown`, `InvalidRequest` (empty_publish, invalid_write_pointer), `ValueError`,
        `RuntimeError` for a transaction that has ended, and `TypeError` for what is not a message.
        """
        how = Publishing.of(tx, if_last, buffer=buffer)
        is_encoded = schema is None and key_schema is None
        messages = with_key(messages, key, headers, has_schema=not is_encoded)
        send = partial(how.send, self._messaging, self._id)
        with deadline(timeout_s):
            if is_encoded:
                return await send(bodies(messages))
            return await self._values.send(send, messages, Encoding(schema, key_schema, register))

    async def schedule(
        self,
        messages: GivenMessages | Any,
        tx: OpenTransaction | None = None,
        *,
        after: Duration | None = None,
        at: int | datetime | None = None,
        key: Any = None,
        headers: Mapping[str, bytes] | None = None,
        schema: GivenSchema | None = None,
        key_schema: GivenSchema | None = None,
        register: bool = True,
        timeout_s: Duration | None = None,
    ) -> list[str]:
        """Publish messages later, in order; without `tx` they are durable on return.

        Either `after` a time, in seconds or as `"5m"`, or `at` a time, in milliseconds since 1970
        or as a datetime with a time zone; a time in the past means now. The other arguments are
        those of `publish`. The messages are checked now. They get their message ids when they are
        published. Until then they can be cancelled by the ids that are returned, 32 hexadecimal
        digits each.

        With `tx` they are scheduled if and only if that commits, in the same flush: then `after`
        counts from the commit, which checks the messages and raises what is wrong with them. No ids
        are returned; `scheduled` lists them after the commit.

        Repeated only if the server certainly did not carry it out. Raises as `publish` without a
        transaction, `InvalidRequest` (invalid_delivery_time) for a time too far ahead, `TooLarge`
        (too_many_scheduled), and `ValueError` unless one of `after` and `at` is given.
        """
        delivery = delivery_of(at, after)
        is_encoded = schema is None and key_schema is None
        messages = with_key(messages, key, headers, has_schema=not is_encoded)

        async def send(payloads: list[bytes]) -> Scheduled:
            if tx is not None:
                tx.gathered.schedule.append(CommitSchedule(self._id, payloads, delivery))
                return Scheduled((), 0)
            return await self._services.schedules.schedule(self._id, payloads, delivery)

        with deadline(timeout_s):
            if is_encoded:
                return list((await send(bodies(messages))).ids)
            encoding = Encoding(schema, key_schema, register)
            return list((await self._values.send(send, messages, encoding)).ids)

    async def scheduled(
        self, *, after: str | None = None, limit: int = LISTED_DEFAULT
    ) -> list[ScheduledMessage]:
        """Return the first messages that will be published later, by the times they are due.

        Those after the id `after`, if it is given; at most 1,000. Raises `TopicNotFound`.
        """
        return list(await self._services.schedules.scheduled(self._id, after, limit))

    async def cancel_scheduled(self, scheduled_id: str) -> None:
        """Cancel a scheduled message: it is never published. Durable on return.

        A message is either cancelled or published, never both. Not repeated if it may have been
        carried out. Raises `TopicNotFound`, `ScheduledNotFound` if it was published or cancelled
        before, `OutcomeUnknown`.
        """
        await self._services.schedules.cancel_scheduled(self._id, scheduled_id)

    async def encode(
        self,
        values: Any,
        schema: GivenSchema,
        *,
        key_schema: GivenSchema | None = None,
        register: bool = True,
    ) -> list[Message]:
        """Encode values as messages, to be published in any way.

        The values and schemas are those of `publish`. Raises `PayloadRefused`, `SchemaRefused`,
        `TopicNotFound`.
        """
        return await self._values.encode(values, Encoding(schema, key_schema, register))

    async def decode(
        self, messages: Iterable[Message], how: Decoding | None = None
    ) -> list[Record]:
        """Decode messages of the topic, wherever they come from, to records.

        Raises `PayloadUndecodable`, unless `how` returns damaged ones as records with an error.
        """
        return await self._values.decode(messages, how or Decoding())

    async def store(self, messages: GivenMessages, tx: Tx) -> None:
        """Store one or more messages, to be published later; durable on return.

        The same as `publish(messages, tx, buffer=True)`.
        """
        await store(self._messaging, self._id, bodies(messages), tx)

    async def rollback(self, published: Published | RollbackRange) -> None:
        """Roll back what one publish in a transaction wrote: transactions no longer see it.

        `published` is the value that `publish` returned, or its `rollback_range`. Doing it twice is
        harmless, so it is repeated while the server is unavailable. Raises `TopicNotFound`,
        `RollbackRefused`, `ValueError` if it was published without a transaction.
        """
        written = published.rollback_range if isinstance(published, Published) else published
        if written is None:
            raise ValueError("nothing to roll back: it was published without a transaction")
        await self._messaging.rollback(self._id, written)

    @overload
    def poll(
        self, *, decode: Literal[False] = False, **options: Unpack[PollOptions]
    ) -> AsyncMessages[Message]: ...

    @overload
    def poll(self, *, decode: Decode, **options: Unpack[PollOptions]) -> AsyncMessages[Record]: ...

    @with_options
    def poll(
        self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]
    ) -> AsyncMessages[Message] | AsyncMessages[Record]:
        """Iterate over the messages that exist, oldest first, then end.

        They begin after `after` or at `start`: a `Message`, a message id (20 bytes, 40 hexadecimal
        digits or a `MessageId`) or a publish time (milliseconds, not seconds, since 1970, or a
        datetime with a time zone). Without both, they begin at the oldest. `limit` is the most
        messages; None is as many as one poll of the server gives (its `poll_messages_max`, a
        million by default). The messages end before `end`. If there are none, wait up to `wait_s`
        seconds for some. `timeout_s` is as in `publish`; it includes the wait.

        Without a transaction, all messages are given, including those in progress and rolled back.
        With `tx`, those that the transaction can see are given, including its own, and with
        `committed` those that are committed now. Both skip messages that were rolled back or are
        invalid, and end before the first that is in progress, so that no message is given before an
        earlier one.

        With a `filter`, only messages whose key and headers match it are given, as in
        `filter='key ^= "eu-" and header.type = "order"'`; `limit` counts those.

        With `decode=True` or a `Decoding`, records are given instead: values by the schemas that
        the payloads name. A message that cannot be decoded raises `PayloadUndecodable`; the error
        has its id, to continue after it.

        Messages arrive while you take them; nothing is sent before the first. If the connection
        breaks, it continues after the last message given. Raises `TopicNotFound`, `InvalidRequest`
        (invalid_message_id, invalid_start_time, start_time_in_seconds, invalid_limit, invalid_wait,
        invalid_filter), with `tx` `TransactionNotInProgress` and `TransactionUnknown`; `ValueError`
        for both `after` and `start`, both `tx` and `committed`, both `end` and `wait_s`, or a
        datetime without a time zone.
        """
        runs = self.poll_runs(decode=decode, **options)
        return AsyncMessages(runs, self._parts.readers)

    def poll_runs(
        self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]
    ) -> HalfRead:
        """Give what `poll` gives, in runs as they arrive."""
        wait_s = options.get("wait_s", 0.0)
        blocks = blocks_of(self._messaging, self._id, reading(**options), self._stops, wait_s)
        return polled(self._values.decoded(blocks, how=decode), **options)

    @with_options
    def poll_arrow(self, **options: Unpack[PollOptions]) -> AsyncMessages[Any]:
        """Iterate over the messages of `poll` in pyarrow's batches of about 10,000 messages.

        The options are those of `poll`. The columns are `message_id`, `timestamp`, `seq`,
        `payload`, `payload_timestamp`, `payload_seq`, `key`, `headers`
        (`tms.arrow.polled.SCHEMA`). Raises `ModuleNotFoundError` without the extra `arrow`.
        """
        return AsyncMessages(self.poll_arrow_runs(**options), self._parts.readers)

    def poll_arrow_runs(self, **options: Unpack[PollOptions]) -> HalfRead:
        """Read the batches of `poll_arrow` in lists of one."""
        parameters, wait_s = reading(**options), options.get("wait_s", 0.0)
        return polled(
            batches_of(self._messaging, self._id, parameters, self._stops, wait_s), **options
        )

    async def range(self, *, committed: bool = True) -> TopicRange:
        """Return where the topic begins now, and an end before which nothing is ever added.

        With `committed`, the end is before the first message of a transaction in progress; without,
        it is for readers of all messages. Raises `TopicNotFound`.
        """
        ranges = await self._services.ranges.ranges((self._id,), isolation_of(committed=committed))
        topic_range = ranges.topics[self._id]
        if topic_range is None:
            raise TopicNotFound(topic=str(self._id))
        return topic_range

    async def splits(self, start: Start, end: Start, parts: int) -> list[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end.

        `start` and `end` are places as `range` returns them or `poll` takes them. No message is
        read. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
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
        """Return the furthest end, at most `end`, within these numbers of messages and bytes.

        It covers at least one message, if there is one; None means no bound. `start` and `end` are
        as in `splits`. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
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
    ) -> AsyncMessages[Message]: ...

    @overload
    def follow(
        self, *, decode: Decode, **options: Unpack[FollowOptions]
    ) -> AsyncMessages[Record]: ...

    @with_options
    def follow(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> AsyncMessages[Message] | AsyncMessages[Record]:
        """Iterate over present and future messages, without end, each once and in order.

        The options are those of `poll`. While the server is unavailable, this waits for it, and
        then continues after the last message given. Raises `TopicNotFound` when the topic is
        deleted, and as `poll`.
        """
        runs = self.follow_runs(decode=decode, **options)
        return AsyncMessages(runs, self._parts.readers)

    def follow_runs(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> HalfRead:
        """Read the messages of `follow` in runs, as they arrive."""
        place, is_closed = ReaderPlace(reading(**options)), self._parts.is_closed

        def open_runs() -> Runs:
            blocks = followed(self._services, self._id, place, self._stops, is_closed)
            return self._values.decoded(blocks, how=decode)

        return HalfRead(Generated(open_runs), is_endless=True)

    def subscription(self, name: str) -> AsyncSubscription:
        """Return the subscription `name`, whether it exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        parts = self._parts
        begin = partial(parts.begin, home=str(self._id))
        return AsyncSubscription(parts, self._id, name, begin)

    async def subscriptions(self) -> list[SubscriptionPosition]:
        """Return the positions of all its subscriptions, sorted by name. Raises `TopicNotFound`."""
        return list(await self._services.subscriptions.subscriptions(self._id))

    def group(self, name: str) -> AsyncTopicGroup:
        """Return the group `name`, whether it exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        parts = self._parts
        begin = partial(parts.begin, home=str(self._id))
        return AsyncTopicGroup(parts, self._id, name, begin)

    async def groups(self) -> list[Group]:
        """Return all its groups, sorted by name. Raises `TopicNotFound`."""
        return list(await self._services.groups.groups(self._id))
