"""The Metadata table: one row per topic, kept when the topic is deleted.

The value is a JSON object of strings with its keys sorted, because a compare-and-put compares
bytes. A deleted topic keeps its row with the generation's sign inverted, so that its next
generation does not bring old entries back. A seal may follow the object (`tables.sealing.seal`). In
a store of an older format some property names are read as others (`tables.raising`).
"""

import json
from collections.abc import Collection, Iterator

from tables.keys import after_prefix, metadata_key, namespace_start, topic_of
from tables.raising import check_writable_row, raised_row, shown_rows
from tables.sealing.seal import topic_row
from tables.store import METADATA, Store
from tms.core.errors import InvalidRequest, StoreCorrupt
from tms.core.values.batch import Batch
from tms.core.values.topic import TopicId, TopicMetadata

_SCAN_ROWS = 1000


class StoreMetadataTable:
    """Topics, deleted ones included."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, topic_id: TopicId) -> TopicMetadata | None:
        """Return the topic, deleted or not; None if there never was one."""
        key = metadata_key(topic_id)
        shown = shown_rows(self._store)
        value = self._store.get(METADATA, key)
        return None if value is None else decoded(key, shown(value))

    def replace(self, old: TopicMetadata | None, new: TopicMetadata) -> bool:
        """Put `new` if the row still is `old`, durably. Return whether it was put.

        Raises as `Store.write` does.
        """
        row = _encoded(new)
        check_writable_row(self._store, row)
        key = metadata_key(new.id)
        expected = None if old is None else _encoded(old)
        while True:
            stored = expected
            if expected is not None and not self._store.is_raised:
                stored = self._store.get(METADATA, key)
                if stored is None or topic_row(raised_row(stored)) != expected:
                    return False
                stored = topic_row(stored)
            if self._store.compare_and_put(METADATA, key, stored, row):
                return True
            if stored == expected:
                return False

    def forget(self, batch: Batch, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        """Add to `batch` the deletion of topics' rows that are unchanged; return those topics.

        No topic may change until the batch is written. A topic that is created again begins with
        generation 1.
        """
        unchanged = {topic.id for topic in topics if self.get(topic.id) == topic}
        batch.delete_rows(METADATA, [metadata_key(topic_id) for topic_id in unchanged])
        return unchanged

    def count(self, start: bytes = b"", *, limit: int) -> tuple[int, bytes | None]:
        """Return how many topics exist in the next `limit` rows, and the key to continue from.

        The key is None at the end. A damaged row counts too: it may be that of a topic.
        """
        with self._store.scan(METADATA, start, b"\xff", limit=limit) as rows:
            page = list(rows)
        count = sum(_may_exist(key, value) for key, value in page)
        return count, page[-1][0] + b"\x00" if len(page) == limit else None

    def scan(self, namespace: str | None = None) -> Iterator[TopicMetadata]:
        """Yield the topics, deleted ones included, of a namespace or of all, by row key."""
        start = b"" if namespace is None else namespace_start(namespace)
        stop = b"\xff" if namespace is None else after_prefix(start)
        while True:
            shown = shown_rows(self._store)
            with self._store.scan(METADATA, start, stop, limit=_SCAN_ROWS) as rows:
                page = list(rows)
            yield from (decoded(key, shown(value)) for key, value in page)
            if len(page) < _SCAN_ROWS:
                return
            start = page[-1][0] + b"\x00"


def _encoded(topic: TopicMetadata) -> bytes:
    return json.dumps(topic.stored_properties(), separators=(",", ":"), ensure_ascii=False).encode()


def _may_exist(key: bytes, value: bytes) -> bool:
    try:
        return decoded(key, value).exists
    except StoreCorrupt:
        return True


def decoded(key: bytes, value: bytes) -> TopicMetadata:
    """Return the topic that a row holds. Raises `StoreCorrupt`."""
    try:
        return TopicMetadata.of(topic_of(key), json.loads(topic_row(value)))
    except (ValueError, AttributeError, TypeError, InvalidRequest) as error:
        raise StoreCorrupt(table=METADATA, key=key.hex(), reason=str(error)) from error
