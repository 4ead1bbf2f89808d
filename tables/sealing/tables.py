"""The tables of a store whose topics are sealed."""

from collections.abc import Sequence

from tables.keys import metadata_key, payload_prefix
from tables.message_table import StoreMessageTable
from tables.payload_table import StorePayloadTable
from tables.schedule_table import StoreScheduleTable
from tables.sealing.groups import SealedGroupTable
from tables.sealing.positions import SealedSubscriptionTable
from tables.sealing.store import SealedBatch, SealedStore
from tables.store_tables import StoreTables
from tms.core.limits import UINT16_COUNT
from tms.core.values.batch import Batch
from tms.core.values.message import KEY
from tms.core.values.stored_runs import ReadRun, Reference
from tms.core.values.table_rows import LastKeys
from tms.core.values.topic import TopicId


class SealedMessageTable(StoreMessageTable):
    """The Message table, whose new keys are above the hidden ones."""

    def __init__(self, store: SealedStore) -> None:
        super().__init__(store)
        self._sealed = store

    def last_keys(self, topic_id: TopicId, generation: int) -> LastKeys:
        """Return the greatest key, also of ranges hidden for good, and the greatest visible one."""
        last = super().last_keys(topic_id, generation)
        through_ms = self._sealed.seal(metadata_key(topic_id)).through_ms
        if through_ms < 0:
            return last
        floor = KEY.pack(through_ms, UINT16_COUNT - 1)
        return last._replace(greatest=max(last.greatest or floor, floor))

    def append_reference(
        self, batch: Batch, topic_prefix: bytes, key: bytes, write_pointer: int
    ) -> None:
        """Add a reference; the batch seals its run first."""
        assert isinstance(batch, SealedBatch)
        batch.runs[payload_prefix(topic_prefix, write_pointer)] = None
        super().append_reference(batch, topic_prefix, key, write_pointer)


class SealedPayloadTable(StorePayloadTable):
    """The Payload table, whose runs are sealed before they are read."""

    def __init__(self, store: SealedStore) -> None:
        super().__init__(store)
        self._sealed = store

    def read_runs(
        self, topic_prefix: bytes, references: Sequence[Reference], *, limit: int, bytes_max: int
    ) -> list[ReadRun]:
        """Return the visible messages of the first references' runs, sealed before the scan.

        Otherwise a scan over several runs would seal each when it reaches it, and may have read its
        rows before.
        """
        for reference in references:
            self._sealed.runs.hidden(payload_prefix(topic_prefix, reference.write_pointer))
        return super().read_runs(topic_prefix, references, limit=limit, bytes_max=bytes_max)


class SealedScheduleTable(StoreScheduleTable):
    """The schedules of a sealed store: each leader has a watermark of its own."""

    def __init__(self, store: SealedStore) -> None:
        super().__init__(store)
        self._sealed = store

    def _token(self) -> int:
        return self._sealed.token


class SealedTables(StoreTables):
    """All tables on a sealed store, which closes with them."""

    def __init__(self, store: SealedStore) -> None:
        super().__init__(store)
        self.sealed = store
        self.messages = SealedMessageTable(store)
        self.payloads = SealedPayloadTable(store)
        self.subscriptions = SealedSubscriptionTable(store)
        self.groups = SealedGroupTable(store, self.subscriptions)
        self.schedules = SealedScheduleTable(store)
