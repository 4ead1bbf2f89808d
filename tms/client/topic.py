"""`Topic` for threads, made from `tms.client.async_topic`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Unpack, overload

from tms.client.async_topic import AsyncTopic
from tms.client.bridge import Bridge
from tms.client.given_messages import GivenMessages
from tms.client.poll import FollowOptions, PollOptions, Tx, with_options
from tms.client.start import IfLast, Start
from tms.client.subscription import Subscription
from tms.client.topic_values import Decode
from tms.core.durations import Duration
from tms.core.message import Message
from tms.core.messaging import Published, RollbackRange
from tms.core.ranges import Reach, Split, TopicRange
from tms.core.records import Decoding, GivenSchema, Record
from tms.core.subscriptions import SubscriptionPosition


class Topic:
    """A topic of one client, which exists or not. Made by `Client.topic`.

    Any number of threads may use it at once. Besides the errors named, each method may raise
    `Unavailable` (nothing was done; the call may succeed later), `InternalError`, and those that
    change something `OutcomeUnknown` (it may or may not have been done).
    """

    def __init__(self, topic: AsyncTopic, bridge: Bridge) -> None:
        """Stand on `topic`, called through `bridge`."""
        self._topic = topic
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class and `namespace:name`."""
        return repr(self._topic).replace("Async", "", 1)

    @property
    def name(self) -> str:
        """The topic's name within its namespace."""
        return self._topic.name

    @property
    def namespace(self) -> str:
        """The namespace that the topic is in."""
        return self._topic.namespace

    def create(
        self, /, ttl: Duration | None = None, *, exist_ok: bool = False, **properties: str | float
    ) -> None:
        """Create the topic. With `exist_ok`, one that is there stays as it is.

        `ttl` is how long messages live, in seconds or as `"7d"`; None is the server's default, a
        week unless it is set otherwise. `properties` are yours, kept as strings. Not repeated where
        it may have been carried out. Raises `TopicExists`, `InvalidRequest` (invalid_ttl,
        invalid_properties).
        """
        self._bridge.call(self._topic.create, ttl, exist_ok=exist_ok, **properties)

    def properties(self) -> dict[str, str]:
        """Return all properties as strings, `ttl` in seconds and `generation` among them.

        Repeated while the server is unavailable. Raises `TopicNotFound`.
        """
        return self._bridge.call(self._topic.properties)

    def replace_properties(self, /, ttl: Duration | None = None, **properties: str | float) -> None:
        """Give the topic these properties and no others.

        Properties not given are gone, and `ttl`, given as to `create`, is the server's default
        again. Repeated while the server is unavailable. Raises `TopicNotFound`, `InvalidRequest`.
        """
        self._bridge.call(self._topic.replace_properties, ttl, **properties)

    def trim(self, before: Start) -> None:
        """Let expire all messages from before a time, or before the time of a message or an id.

        Of a stored message the time counts at which it was stored. Nobody is given them any more,
        and cleanup takes them out of the store. Repeated while the server is unavailable. Raises
        `TopicNotFound`, `InvalidTrimTime` for a time that has not come.
        """
        self._bridge.call(self._topic.trim, before)

    def delete(self) -> None:
        """Delete the topic and all its messages. Raises `TopicNotFound`, `OutcomeUnknown`."""
        self._bridge.call(self._topic.delete)

    def publish(
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
        return self._bridge.call(
            self._topic.publish,
            messages,
            tx,
            schema=schema,
            key_schema=key_schema,
            register=register,
            buffer=buffer,
            if_last=if_last,
        )

    def encode(
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
        return self._bridge.call(
            self._topic.encode, values, schema, key_schema=key_schema, register=register
        )

    def decode(self, messages: Iterable[Message], how: Decoding | None = None) -> list[Record]:
        """Return the records that messages of the topic are, from wherever they come.

        Raises `PayloadUndecodable`, unless `how` gives damaged ones as records with an error.
        """
        return self._bridge.call(self._topic.decode, messages, how)

    def store(self, messages: GivenMessages, tx: Tx) -> None:
        """Store messages, at least one, to be published later; durable on return.

        The same as `publish(messages, tx, buffer=True)`.
        """
        self._bridge.call(self._topic.store, messages, tx)

    def rollback(self, published: Published | RollbackRange) -> None:
        """Roll back what a transactional publish wrote: transactions do not see it any more.

        `published` is what `publish` returned, or its `rollback_range`. Doing it twice is the same
        as once, so it is repeated while the server is unavailable. Raises `TopicNotFound`,
        `RollbackRefused`, `ValueError` where it was published without a transaction.
        """
        self._bridge.call(self._topic.rollback, published)

    @overload
    def poll(
        self, *, decode: Literal[False] = False, **options: Unpack[PollOptions]
    ) -> Iterator[Message]: ...

    @overload
    def poll(self, *, decode: Decode, **options: Unpack[PollOptions]) -> Iterator[Record]: ...

    @with_options
    def poll(
        self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]
    ) -> Iterator[Message] | Iterator[Record]:
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
        return self._bridge.iterate(self._topic.poll_runs(decode=decode, **options))

    @with_options
    def poll_arrow(self, **options: Unpack[PollOptions]) -> Iterator[Any]:
        """Give what `poll` gives as record batches of pyarrow's, of about 10,000 messages.

        The options are those of `poll`. The columns are `message_id`, `timestamp`, `seq`,
        `payload`, `payload_timestamp`, `payload_seq`, `key`, `headers`
        (`tms.arrow.polled.FRAMES_SCHEMA`). Needs the extra `arrow`: without it,
        `ModuleNotFoundError` is raised.
        """
        return self._bridge.iterate(self._topic.poll_arrow_runs(**options))

    def range(self, *, committed: bool = True) -> TopicRange:
        """Return where the topic begins now, and an end below which nothing is ever added.

        With `committed`, the end is before the first message of a transaction in progress; without,
        it is for readers of all messages. Raises `TopicNotFound`.
        """
        return self._bridge.call(self._topic.range, committed=committed)

    def splits(self, start: Start, end: Start, parts: int) -> list[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end.

        Both ends are places as `range` gives them, or as `poll` takes them. Nothing is read for it.
        Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
        """
        return self._bridge.call(self._topic.splits, start, end, parts)

    def reach(
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
        return self._bridge.call(
            self._topic.reach,
            start,
            end,
            messages=messages,
            payload_bytes=payload_bytes,
            committed=committed,
        )

    @overload
    def follow(
        self, *, decode: Literal[False] = False, **options: Unpack[FollowOptions]
    ) -> Iterator[Message]: ...

    @overload
    def follow(self, *, decode: Decode, **options: Unpack[FollowOptions]) -> Iterator[Record]: ...

    @with_options
    def follow(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> Iterator[Message] | Iterator[Record]:
        """Give the messages there are and those to come, for ever, each once and in order.

        `after`, `start`, `committed` and `decode` are those of `poll`. While the server is away
        this waits for it, and then goes on behind the last message given. Raises `TopicNotFound`
        when the topic is deleted, and what `poll` raises.
        """
        return self._bridge.iterate(self._topic.follow_runs(decode=decode, **options))

    def subscription(self, name: str) -> Subscription:
        """Return the subscription `name`, which exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        return Subscription(self._topic.subscription(name), self._bridge)

    def subscriptions(self) -> list[SubscriptionPosition]:
        """Return the positions of all its subscriptions, sorted by name. Raises `TopicNotFound`."""
        return self._bridge.call(self._topic.subscriptions)
