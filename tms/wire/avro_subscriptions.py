"""Bodies of subscriptions as raw Avro binary; the schemas are with those of transactions."""

from tms.core.message import check_id
from tms.core.subscriptions import Subscription
from tms.core.topic import TopicId
from tms.wire.avro import NULL, AvroReader, number, optional, sized, text
from tms.wire.transaction_bodies import Move


def _position(after: bytes | None) -> bytes:
    return NULL if after is None else optional(sized(after))


class AvroSubscriptions:
    """`avro/binary` of subscriptions, both ways."""

    def encode_position(self, after: bytes | None) -> bytes:
        """Return the body that creates a subscription, for the client."""
        return _position(after)

    def decode_position(self, body: bytes) -> bytes | None:
        """Return where a new subscription starts. An empty body: before the oldest message."""
        if not body:
            return None
        reader = AvroReader(body)
        after = check_id(reader.sized()) if reader.has_value() else None
        reader.end()
        return after

    def encode_move(self, move: Move) -> bytes:
        """Return the body of an advance, for the client."""
        return sized(move.after) + number(move.expected_version)

    def decode_move(self, body: bytes) -> Move:
        """Return where a subscription is to be moved, and from which version."""
        reader = AvroReader(body)
        move = Move(check_id(reader.sized()), reader.number())
        reader.end()
        return move

    def encode_subscription(self, subscription: Subscription) -> bytes:
        """Return what is answered of a subscription."""
        return b"".join(
            (
                text(subscription.name),
                _position(subscription.after),
                number(subscription.version),
            )
        )

    def decode_subscription(self, body: bytes, topic_id: TopicId) -> Subscription:
        """Return what was answered of a subscription of a topic, for the client."""
        reader = AvroReader(body)
        name = reader.text()
        after = reader.sized() if reader.has_value() else None
        subscription = Subscription(topic_id, name, after, reader.number())
        reader.end()
        return subscription
