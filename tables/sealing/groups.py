"""The Group table of a store that leaders share: late rows do not count.

A leader puts the rows of a group under its own token, after a first snapshot under that token. So
late rows of an earlier leader have a smaller token, and a reader of the group uses only the
greatest. A server without a lease continues under the token of the topic's floor
(`tables.sealing.positions`): no rows of a group have a greater token, because a leader sets the
floor before it reads a group.
"""

from collections.abc import Iterator

from tables import schedule_table
from tables.group_table import StoreGroupTable, counting_rows
from tables.keys import after_prefix, prefix_of
from tables.sealing.positions import SealedSubscriptionTable, plain_rows
from tables.sealing.store import SealedStore
from tables.store import GROUP, SUBSCRIPTION, Row, Store
from tables.subscription_table import decoded
from tms.core.errors import StoreUnavailable
from tms.core.values.subscriptions import SharedSubscription


class SealedGroupTable(StoreGroupTable):
    """The Group table of a sealed store."""

    def __init__(self, store: SealedStore, subscriptions: SealedSubscriptionTable) -> None:
        super().__init__(store)
        self._sealed = store
        self._subscriptions = subscriptions

    def _token(self, topic_prefix: bytes) -> int:
        return self._subscriptions.token_of(topic_prefix)

    def _check_later(self, token: int) -> None:
        if self._sealed.token:
            raise StoreUnavailable(reason="a later leader has the group", later_token=token)


def shared_in(store: Store, start: bytes) -> Iterator[tuple[bytes, SharedSubscription]]:
    """Yield the existing groups under a start of keys, with the prefixes of their topics."""
    with store.scan(SUBSCRIPTION, start, after_prefix(start)) as rows:
        for key, value in plain_rows(rows):
            topic_id, _, prefix = prefix_of(key)
            subscription = decoded(topic_id, key[len(prefix) :], value)
            if isinstance(subscription, SharedSubscription):
                yield prefix, subscription


def plain_group_rows(store: Store, topic: bytes) -> Iterator[Row]:
    """Yield the rows of a topic's groups and schedules as a lone server writes them.

    `topic` is the topic's metadata row key. Rows ascend. Raises `StoreCorrupt`.
    """
    at, stop = topic, after_prefix(topic)
    while True:
        with store.scan(GROUP, at, stop, limit=1) as rows:
            key = next((key for key, _ in rows), None)
        if key is None:
            return
        prefix = prefix_of(key)[2]
        yield from schedule_table.counting_rows(store, prefix)
        yield from counting_rows(
            store, prefix, [group.name for _, group in shared_in(store, prefix)]
        )
        at = after_prefix(prefix)
