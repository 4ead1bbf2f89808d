"""The Subscription table: named positions of consumers, one row each, by topic and generation.

    row key := prefix (tables.keys), name UTF-8
    value   := version int64, id of the last consumed message (20 bytes, or none)

Big-endian. A position belongs to a generation of its topic: recreated, a topic has none.
"""

import struct
from collections.abc import Sequence

from tables.keys import after_prefix, prefix_of
from tables.store import SUBSCRIPTION, Store
from tms.core.errors import StoreCorrupt
from tms.core.message import ID_BYTES
from tms.core.subscriptions import SubscriptionPosition
from tms.core.tables import Batch, StoredPosition
from tms.core.topic import TopicId

_VERSION = struct.Struct(">q")


class StoreSubscriptionTable:
    """The Subscription table on any Store. Fulfils `tms.core.tables.SubscriptionTable`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_unanswered(self, topic_prefix: bytes, name: str) -> None:
        """Raise `StoreUnavailable` where an earlier write of a subscription may come late."""
        self._store.check_unanswered(SUBSCRIPTION, (topic_prefix + name.encode(),))

    def put(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the row of a subscription."""
        batch.put(SUBSCRIPTION, topic_prefix + subscription.name.encode(), encoded(subscription))

    def delete(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the deletion of a subscription."""
        batch.delete(SUBSCRIPTION, topic_prefix + subscription.name.encode())

    def read(self, topic_id: TopicId, topic_prefix: bytes) -> Sequence[SubscriptionPosition]:
        """Return the subscriptions of a topic's generation in the order of their names."""
        with self._store.scan(SUBSCRIPTION, topic_prefix, after_prefix(topic_prefix)) as rows:
            return [decoded(topic_id, key[len(topic_prefix) :], value) for key, value in rows]

    def scan(self, *, limit: int) -> Sequence[StoredPosition]:
        """Return the first `limit` subscriptions of all topics, by topic, generation and name."""
        with self._store.scan(SUBSCRIPTION, b"", b"\xff", limit=limit) as rows:
            return [_stored(key, value) for key, value in rows]


def _stored(key: bytes, value: bytes) -> StoredPosition:
    topic_id, generation, prefix = prefix_of(key)
    return StoredPosition(prefix, generation, decoded(topic_id, key[len(prefix) :], value))


def encoded(subscription: SubscriptionPosition) -> bytes:
    """Return the value of a subscription's row."""
    return _VERSION.pack(subscription.version) + (subscription.after or b"")


def decoded(topic_id: TopicId, name: bytes, value: bytes) -> SubscriptionPosition:
    """Return the subscription of a row's name and value. Raises `StoreCorrupt`."""
    after = value[_VERSION.size :]
    if len(value) < _VERSION.size or len(after) not in (0, ID_BYTES):
        raise StoreCorrupt(table=SUBSCRIPTION, topic=str(topic_id), name=name.hex())
    [version] = _VERSION.unpack_from(value)
    return SubscriptionPosition(topic_id, name.decode(), after or None, version)
