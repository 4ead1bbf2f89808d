"""Bodies of subscriptions as JSON."""

import msgspec

from tms.core.message import parse_id
from tms.core.subscriptions import SubscriptionPosition
from tms.wire.json_fields import MessageIdText, Version
from tms.wire.json_values import decode, encode
from tms.wire.transaction_bodies import Move


class PositionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where a new subscription starts; null is before the oldest message."""

    after: MessageIdText | None = None


class MoveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where to move a subscription, and from which version."""

    after: MessageIdText
    expected_version: Version


class SubscriptionBody(msgspec.Struct):
    """A subscription; `after` is null before the oldest message."""

    name: str
    after: MessageIdText | None
    version: Version


_position_decoder = msgspec.json.Decoder(PositionBody)
_move_decoder = msgspec.json.Decoder(MoveBody)


def subscription_body(subscription: SubscriptionPosition) -> SubscriptionBody:
    """Return what is told of a subscription."""
    after = subscription.after
    return SubscriptionBody(
        subscription.name, None if after is None else after.hex(), subscription.version
    )


class JsonSubscriptions:
    """`application/json` of subscriptions, as the server uses it."""

    def decode_position(self, body: bytes) -> bytes | None:
        """Return where a new subscription starts. An empty body: before the oldest message."""
        if not body:
            return None
        after = decode(_position_decoder, body).after
        return None if after is None else parse_id(after)

    def decode_move(self, body: bytes) -> Move:
        """Return where a subscription is to be moved, and from which version."""
        value = decode(_move_decoder, body)
        return Move(parse_id(value.after), value.expected_version)

    def encode_subscription(self, subscription: SubscriptionPosition) -> bytes:
        """Return what is answered of a subscription."""
        return encode(subscription_body(subscription))
