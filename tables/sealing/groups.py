"""The Group table of a store that leaders share: late rows do not count.

A leader puts the rows of a group under its own token, and a snapshot under it first. So whatever an
earlier leader sends late has a smaller token, and who reads the group looks at the greatest alone.
A server without a lease goes on under the token of the topic's floor (`tables.sealing.positions`):
no rows of a group have a greater one, because a leader sets the floor before it reads a group.
"""

from tables.group_table import StoreGroupTable
from tables.sealing.positions import SealedSubscriptionTable
from tables.sealing.store import SealedStore
from tms.core.errors import StoreUnavailable


class SealedGroupTable(StoreGroupTable):
    """The Group table of a sealed store. Fulfils `tms.core.group_log.GroupTable`."""

    def __init__(self, store: SealedStore, subscriptions: SealedSubscriptionTable) -> None:
        super().__init__(store)
        self._sealed = store
        self._subscriptions = subscriptions

    def _token(self, topic_prefix: bytes) -> int:
        return self._subscriptions.token_of(topic_prefix)

    def _check_later(self, token: int) -> None:
        if self._sealed.token:
            raise StoreUnavailable(reason="a later leader has the group", later_token=token)
