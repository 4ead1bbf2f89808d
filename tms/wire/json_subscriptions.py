"""Bodies of subscriptions as JSON."""

import msgspec

from tms.core.message import parse_id
from tms.core.subscriptions import SubscriptionPosition
from tms.wire.json_values import Int64, decode, encode
from tms.wire.transaction_bodies import Move


class _PositionBody(msgspec.Struct, forbid_unknown_fields=True):
    after: str | None = None


class _MoveBody(msgspec.Struct, forbid_unknown_fields=True):
    after: str
    expected_version: Int64


_position_decoder = msgspec.json.Decoder(_PositionBody)
_move_decoder = msgspec.json.Decoder(_MoveBody)


def subscription_record(subscription: SubscriptionPosition) -> dict[str, object]:
    """Return the JSON object that tells a subscription."""
    after = subscription.after
    return {
        "name": subscription.name,
        "after": None if after is None else after.hex(),
        "version": subscription.version,
    }


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
        return encode(subscription_record(subscription))
