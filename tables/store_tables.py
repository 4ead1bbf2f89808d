"""The tables of one store, as messaging sees them (`tms.core.tables.Tables`)."""

from tables.group_table import StoreGroupTable
from tables.keys import prefix
from tables.message_table import StoreMessageTable
from tables.metadata_table import StoreMetadataTable
from tables.payload_table import StorePayloadTable
from tables.store import Store
from tables.subscription_table import StoreSubscriptionTable
from tables.transaction_table import StoreTransactionTable
from tms.core.tables import Batch
from tms.core.topic import TopicId


class StoreTables:
    """All tables on `store`, which closes with them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.messages = StoreMessageTable(store)
        self.payloads = StorePayloadTable(store)
        self.metadata = StoreMetadataTable(store)
        self.subscriptions = StoreSubscriptionTable(store)
        self.groups = StoreGroupTable(store)
        self.transactions = StoreTransactionTable(store)

    @property
    def is_embedded(self) -> bool:
        """Whether the store is this process's own, and not a server elsewhere."""
        return self.store.is_embedded

    @property
    def reads_at_once(self) -> int:
        """How many reads may wait for the store at a time, each in a thread."""
        return self.store.reads_at_once

    def features(self) -> frozenset[str]:
        """Return the features of the store that are recorded."""
        return self.store.features()

    def add_feature(self, feature: str) -> None:
        """Record a feature, durably."""
        self.store.add_feature(feature)

    def prefix(self, topic_id: TopicId, generation: int) -> bytes:
        """Return the start of all data rows of a topic's generation."""
        return prefix(topic_id, generation)

    def batch(self) -> Batch:
        """Return an empty batch."""
        return self.store.batch()

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` where a write would be refused now."""
        self.store.check_writable()

    def is_behind(self) -> bool:
        """Whether a large write would now wait until the store has merged more."""
        return self.store.is_behind()

    def write(self, batch: Batch) -> None:
        """Write a batch; durable when it returns."""
        self.store.write(batch)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
