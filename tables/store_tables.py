"""The tables of one store, which share batches.

All calls block, so worker threads make them, not the event loop; except calls that only fill a
batch, and small writes to an embedded store while it is fast. A topic prefix is the opaque start of
all row keys of one topic's generation. Keys are the 10 bytes of timestamp and sequence id. Every
call may raise `StoreUnavailable`, a read `StoreCorrupt`, a write `OutcomeUnknown`.
"""

from tables.group_table import StoreGroupTable
from tables.keys import prefix
from tables.message_table import StoreMessageTable
from tables.metadata_table import StoreMetadataTable
from tables.payload_table import StorePayloadTable
from tables.schedule_table import StoreScheduleTable
from tables.store import Store
from tables.subscription_table import StoreSubscriptionTable
from tables.transaction_table import StoreTransactionTable
from tms.core.values.topic import TopicId


class StoreTables:
    """All tables on `store`, which closes with them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_embedded = store.is_embedded
        self.reads_at_once = store.reads_at_once
        self.features = store.features
        self.add_feature = store.add_feature
        self.batch = store.batch
        self.check_writable = store.check_writable
        self.is_behind = store.is_behind
        self.write = store.write
        self.close = store.close
        self.messages = StoreMessageTable(store)
        self.payloads = StorePayloadTable(store)
        self.metadata = StoreMetadataTable(store)
        self.subscriptions = StoreSubscriptionTable(store)
        self.groups = StoreGroupTable(store)
        self.schedules = StoreScheduleTable(store)
        self.transactions = StoreTransactionTable(store)

    def prefix(self, topic_id: TopicId, generation: int) -> bytes:
        """Return the start of all data rows of a topic's generation."""
        return prefix(topic_id, generation)
