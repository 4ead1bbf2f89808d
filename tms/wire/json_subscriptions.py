"""Bodies of subscriptions, both ways: JSON only."""

from collections.abc import Iterable

import msgspec

from tms.core.values.message import parse_id
from tms.core.values.subscriptions import Advance, SubscriptionKind, SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.wire.json_fields import MessageIdText, Version
from tms.wire.json_values import decode, decode_answer, encode


class PositionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where a new subscription starts; null is before the oldest message."""

    after: MessageIdText | None = None


class MoveBody(msgspec.Struct, forbid_unknown_fields=True):
    """The new position of a subscription, and its expected version."""

    after: MessageIdText
    expected_version: Version


class SubscriptionBody(msgspec.Struct):
    """A subscription. `after` is null at the start of the topic; a group began after it."""

    name: str
    after: MessageIdText | None
    version: Version
    kind: SubscriptionKind = SubscriptionKind.SINGLE


def encode_position(after: bytes | None) -> bytes:
    """Return the body that creates a subscription."""
    return encode(PositionBody(None if after is None else after.hex()))


def decode_position(body: bytes) -> bytes | None:
    """Return the position of a new subscription; before the oldest message if empty."""
    after = decode(PositionBody, body).after if body else None
    return None if after is None else parse_id(after)


def encode_move(advance: Advance) -> bytes:
    """Return the body that moves a subscription."""
    return encode(MoveBody(advance.after.hex(), advance.expected_version))


def decode_move(body: bytes, topic_id: TopicId, name: str) -> Advance:
    """Return the move of a subscription of a topic."""
    value = decode(MoveBody, body)
    return Advance(topic_id, name, parse_id(value.after), value.expected_version)


def _body_of(subscription: SubscriptionPosition) -> SubscriptionBody:
    after = subscription.after
    return SubscriptionBody(
        subscription.name,
        None if after is None else after.hex(),
        subscription.version,
        subscription.kind,
    )


def _subscription_of(body: SubscriptionBody, topic_id: TopicId) -> SubscriptionPosition:
    after = None if body.after is None else parse_id(body.after)
    return SubscriptionPosition(topic_id, body.name, after, body.version, body.kind)


def encode_subscription(subscription: SubscriptionPosition) -> bytes:
    """Return the answer that shows a subscription."""
    return encode(_body_of(subscription))


def decode_subscription(answer: bytes, topic_id: TopicId) -> SubscriptionPosition:
    """Return the subscription of a topic in an answer."""
    return _subscription_of(decode_answer(SubscriptionBody, answer), topic_id)


def encode_subscriptions(subscriptions: Iterable[SubscriptionPosition]) -> bytes:
    """Return the list of a topic's subscriptions."""
    return encode([_body_of(subscription) for subscription in subscriptions])


def decode_subscriptions(answer: bytes, topic_id: TopicId) -> list[SubscriptionPosition]:
    """Return a topic's subscriptions in an answer."""
    bodies = decode_answer(list[SubscriptionBody], answer)
    return [_subscription_of(each, topic_id) for each in bodies]
