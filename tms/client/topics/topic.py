"""`Topic` for threads, made from `tms.client.topics.async_topic`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Unpack, overload

from tms.client.groups.group import TopicGroup
from tms.client.reading.given_messages import GivenMessages
from tms.client.reading.poll import FollowOptions, PollOptions, Tx, with_options
from tms.client.reading.start import IfLast, Start
from tms.client.reading.topic_values import Decode
from tms.client.threads.bridge import Bridge
from tms.client.threads.messages import Messages
from tms.client.topics.async_topic import AsyncTopic
from tms.client.topics.subscription import Subscription
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.services.messaging import Published, RollbackRange
from tms.core.services.records import Decoding, GivenSchema, Record
from tms.core.text.durations import Duration
from tms.core.values.groups import Group
from tms.core.values.message import Message
from tms.core.values.ranges import Reach, Split, TopicRange
from tms.core.values.schedules import LISTED_DEFAULT, ScheduledMessage
from tms.core.values.subscriptions import SubscriptionPosition


class Topic:
    """A topic of one client, whether it exists or not. Made by `Client.topic`.

    Any number of threads may use it at once. In addition to the errors named, each method may raise
    `Unavailable` (nothing was done; the call may succeed later), `InternalError`, and those that
    change something `OutcomeUnknown` (it may or may not have been done).
    """

    def __init__(self, topic: AsyncTopic, bridge: Bridge) -> None:
        """Use `topic`, called through `bridge`."""
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
        """Create the topic. With `exist_ok`, an existing topic is left unchanged.

        The right to see it (`describe`) is then enough.

        `ttl` is how long messages live, in seconds or as `"7d"`; None is the server's default,
        which is a week unless it is set otherwise. `properties` are yours, kept as strings. Not
        repeated if it may have been carried out. Raises `TopicExists`, `InvalidRequest`
        (invalid_ttl, invalid_properties).
        """
        self._bridge.call(self._topic.create, ttl, exist_ok=exist_ok, **properties)

    def properties(self) -> dict[str, str]:
        """Return all properties as strings, `ttl` in seconds and `generation` among them.

        Repeated while the server is unavailable. Raises `TopicNotFound`.
        """
        return self._bridge.call(self._topic.properties)

    def replace_properties(self, /, ttl: Duration | None = None, **properties: str | float) -> None:
        """Replace the properties of the topic.

        Properties that are not given are removed. `ttl` is as in `create`; without it, the server's
        default applies again. Repeated while the server is unavailable. Raises `TopicNotFound`,
        `InvalidRequest`.
        """
        self._bridge.call(self._topic.replace_properties, ttl, **properties)

    def trim(self, before: Start) -> None:
        """Expire all messages that are older than a time, a message or an id.

        For a buffered message of a transaction, the time at which it was stored counts. Readers no
        longer get expired messages, and cleanup deletes them. Repeated while the server is
        unavailable. Raises `TopicNotFound`, `InvalidTrimTime` for a time in the future.
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
        return self._bridge.call(
            self._topic.publish,
            messages,
            tx,
            key=key,
            headers=headers,
            schema=schema,
            key_schema=key_schema,
            register=register,
            buffer=buffer,
            if_last=if_last,
            timeout_s=timeout_s,
        )

    def schedule(
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
        return self._bridge.call(
            self._topic.schedule,
            messages,
            tx,
            after=after,
            at=at,
            key=key,
            headers=headers,
            schema=schema,
            key_schema=key_schema,
            register=register,
            timeout_s=timeout_s,
        )

    def scheduled(
        self, *, after: str | None = None, limit: int = LISTED_DEFAULT
    ) -> list[ScheduledMessage]:
        """Return the first messages that will be published later, by the times they are due.

        Those after the id `after`, if it is given; at most 1,000. Raises `TopicNotFound`.
        """
        return self._bridge.call(self._topic.scheduled, after=after, limit=limit)

    def cancel_scheduled(self, scheduled_id: str) -> None:
        """Cancel a scheduled message: it is never published. Durable on return.

        A message is either cancelled or published, never both. Not repeated if it may have been
        carried out. Raises `TopicNotFound`, `ScheduledNotFound` if it was published or cancelled
        before, `OutcomeUnknown`.
        """
        self._bridge.call(self._topic.cancel_scheduled, scheduled_id)

    def encode(
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
        return self._bridge.call(
            self._topic.encode, values, schema, key_schema=key_schema, register=register
        )

    def decode(self, messages: Iterable[Message], how: Decoding | None = None) -> list[Record]:
        """Decode messages of the topic, wherever they come from, to records.

        Raises `PayloadUndecodable`, unless `how` returns damaged ones as records with an error.
        """
        return self._bridge.call(self._topic.decode, messages, how)

    def store(self, messages: GivenMessages, tx: Tx) -> None:
        """Store one or more messages, to be published later; durable on return.

        The same as `publish(messages, tx, buffer=True)`.
        """
        self._bridge.call(self._topic.store, messages, tx)

    def rollback(self, published: Published | RollbackRange) -> None:
        """Roll back what one publish in a transaction wrote: transactions no longer see it.

        `published` is the value that `publish` returned, or its `rollback_range`. Doing it twice is
        harmless, so it is repeated while the server is unavailable. Raises `TopicNotFound`,
        `RollbackRefused`, `ValueError` if it was published without a transaction.
        """
        self._bridge.call(self._topic.rollback, published)

    @overload
    def poll(
        self, *, decode: Literal[False] = False, **options: Unpack[PollOptions]
    ) -> Messages[Message]: ...

    @overload
    def poll(self, *, decode: Decode, **options: Unpack[PollOptions]) -> Messages[Record]: ...

    @with_options
    def poll(
        self, *, decode: Decoding | bool = False, **options: Unpack[PollOptions]
    ) -> Messages[Message] | Messages[Record]:
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
        return self._bridge.iterate(self._topic.poll_runs(decode=decode, **options))

    @with_options
    def poll_arrow(self, **options: Unpack[PollOptions]) -> Messages[Any]:
        """Iterate over the messages of `poll` in pyarrow's batches of about 10,000 messages.

        The options are those of `poll`. The columns are `message_id`, `timestamp`, `seq`,
        `payload`, `payload_timestamp`, `payload_seq`, `key`, `headers` (`tms.arrow.polled.SCHEMA`).
        Raises `ModuleNotFoundError` without the extra `arrow`.
        """
        return self._bridge.iterate(self._topic.poll_arrow_runs(**options))

    def range(self, *, committed: bool = True) -> TopicRange:
        """Return where the topic begins now, and an end before which nothing is ever added.

        With `committed`, the end is before the first message of a transaction in progress; without,
        it is for readers of all messages. Raises `TopicNotFound`.
        """
        return self._bridge.call(self._topic.range, committed=committed)

    def splits(self, start: Start, end: Start, parts: int) -> list[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end.

        `start` and `end` are places as `range` returns them or `poll` takes them. No message is
        read. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
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
        """Return the furthest end, at most `end`, within these numbers of messages and bytes.

        It covers at least one message, if there is one; None means no bound. `start` and `end` are
        as in `splits`. Raises `TopicNotFound`, `InvalidRequest` (invalid_range).
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
    ) -> Messages[Message]: ...

    @overload
    def follow(self, *, decode: Decode, **options: Unpack[FollowOptions]) -> Messages[Record]: ...

    @with_options
    def follow(
        self, *, decode: Decoding | bool = False, **options: Unpack[FollowOptions]
    ) -> Messages[Message] | Messages[Record]:
        """Iterate over present and future messages, without end, each once and in order.

        The options are those of `poll`. While the server is unavailable, this waits for it, and
        then continues after the last message given. Raises `TopicNotFound` when the topic is
        deleted, and as `poll`.
        """
        return self._bridge.iterate(self._topic.follow_runs(decode=decode, **options))

    def subscription(self, name: str) -> Subscription:
        """Return the subscription `name`, whether it exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        return Subscription(self._topic.subscription(name), self._bridge)

    def subscriptions(self) -> list[SubscriptionPosition]:
        """Return the positions of all its subscriptions, sorted by name. Raises `TopicNotFound`."""
        return self._bridge.call(self._topic.subscriptions)

    def group(self, name: str) -> TopicGroup:
        """Return the group `name`, whether it exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_subscription_name).
        """
        return TopicGroup(self._topic.group(name), self._bridge)

    def groups(self) -> list[Group]:
        """Return all its groups, sorted by name. Raises `TopicNotFound`."""
        return self._bridge.call(self._topic.groups)
