"""Bodies of subscriptions as raw Avro binary; the schemas are with those of transactions."""

import fastavro

from tms.core.message import check_id
from tms.core.subscriptions import SubscriptionPosition
from tms.core.topic import TopicId
from tms.wire.avro import decode, encode
from tms.wire.avro_transactions import MOVE_SCHEMA, POSITION_SCHEMA, SUBSCRIPTION_SCHEMA
from tms.wire.transaction_bodies import Move

_POSITION = fastavro.parse_schema(POSITION_SCHEMA)
_MOVE = fastavro.parse_schema(MOVE_SCHEMA)
_SUBSCRIPTION = fastavro.parse_schema(SUBSCRIPTION_SCHEMA)


class AvroSubscriptions:
    """`avro/binary` of subscriptions, both ways."""

    def encode_position(self, after: bytes | None) -> bytes:
        """Return the body that creates a subscription, for the client."""
        return encode(_POSITION, {"after": after})

    def decode_position(self, body: bytes) -> bytes | None:
        """Return where a new subscription starts. An empty body: before the oldest message."""
        after = decode(_POSITION, body)["after"] if body else None
        return None if after is None else check_id(after)

    def encode_move(self, move: Move) -> bytes:
        """Return the body of an advance, for the client."""
        return encode(_MOVE, move._asdict())

    def decode_move(self, body: bytes) -> Move:
        """Return where a subscription is to be moved, and from which version."""
        move = Move(**decode(_MOVE, body))
        check_id(move.after)
        return move

    def encode_subscription(self, subscription: SubscriptionPosition) -> bytes:
        """Return what is answered of a subscription."""
        return encode(
            _SUBSCRIPTION,
            {
                "name": subscription.name,
                "after": subscription.after,
                "version": subscription.version,
            },
        )

    def decode_subscription(self, body: bytes, topic_id: TopicId) -> SubscriptionPosition:
        """Return what was answered of a subscription of a topic, for the client."""
        value = decode(_SUBSCRIPTION, body)
        return SubscriptionPosition(topic_id, value["name"], value["after"], value["version"])
