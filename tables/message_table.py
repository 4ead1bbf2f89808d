"""The Message table: a topic's entries in the order in which they were published.

Rows as in `tables.keys`. A rolled back entry keeps its row, with the pointer's sign inverted, so
readers without a transaction see the same log until the row expires.
"""

from collections.abc import Sequence

from tables.keys import (
    FIRST_GENERATION,
    FRAMED_START,
    PLAIN_START,
    after_prefix,
    entry_pointer_of,
    inverted,
    prefix,
    reference_value,
    transactional_framed_start,
    transactional_start,
)
from tables.rows_to_items import read_entries
from tables.store import MESSAGE, Store
from tms.core.values.batch import Batch
from tms.core.values.entries import PLAIN, Entries
from tms.core.values.frame import framed_of
from tms.core.values.message import KEY_BYTES, key_after
from tms.core.values.table_rows import LastKeys, OwnEntries
from tms.core.values.topic import TopicId


class StoreMessageTable:
    """Entries of topics by publish time and sequence id."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(
        self,
        batch: Batch,
        topic_prefix: bytes,
        keys: Sequence[bytes],
        bodies: Sequence[bytes],
        write_pointer: int | None,
    ) -> None:
        """Add to `batch` one entry for each body, under the key of the same index."""
        start = PLAIN_START if write_pointer is None else transactional_start(write_pointer)
        framed = framed_of(bodies)
        if not framed:
            batch.put_rows(MESSAGE, zip(keys, bodies, strict=True), topic_prefix, start)
            return
        framed_start = (
            FRAMED_START if write_pointer is None else transactional_framed_start(write_pointer)
        )
        if len(framed) == len(keys):
            batch.put_rows(MESSAGE, zip(keys, bodies, strict=True), topic_prefix, framed_start)
            return
        starts = [start] * len(keys)
        for index in framed:
            starts[index] = framed_start
        values = (before + body for before, body in zip(starts, bodies, strict=True))
        batch.put_rows(MESSAGE, zip(keys, values, strict=True), topic_prefix)

    def append_reference(
        self, batch: Batch, topic_prefix: bytes, key: bytes, write_pointer: int
    ) -> None:
        """Add to `batch` a reference to the messages stored under `write_pointer`."""
        batch.put(MESSAGE, topic_prefix + key, reference_value(write_pointer))

    def read(
        self,
        topic_prefix: bytes,
        first_key: bytes,
        *,
        limit: int,
        bytes_max: int,
        stop_key: bytes | None = None,
    ) -> tuple[Entries, bytes | None]:
        """Return entries from `first_key` on, and the key to continue from; None if all were read.

        Return at most `limit` of them, and stop once `bytes_max` of payload are reached, but at
        least one if there is one. None are from `stop_key` on.
        """
        start = topic_prefix + first_key
        stop = after_prefix(topic_prefix) if stop_key is None else topic_prefix + stop_key
        with self._store.scan(MESSAGE, start, stop, limit=limit) as rows:
            return read_entries(rows, limit=limit, bytes_max=bytes_max)

    def first_key(self, topic_prefix: bytes, from_key: bytes) -> bytes | None:
        """Return the smallest key from `from_key` on, None if none."""
        start, stop = topic_prefix + from_key, after_prefix(topic_prefix)
        with self._store.scan(MESSAGE, start, stop, limit=1) as rows:
            return next((key[-KEY_BYTES:] for key, _ in rows), None)

    def size_bytes(self, topic_prefix: bytes, first_key: bytes, stop_key: bytes) -> int:
        """Return the approximate size of the entries from `first_key` to before `stop_key`.

        Recent writes may not count. 0 if the store does not say.
        """
        return self._store.size_bytes(MESSAGE, topic_prefix + first_key, topic_prefix + stop_key)

    def last_keys(self, topic_id: TopicId, generation: int) -> LastKeys:
        """Return the greatest keys of a topic."""
        start, own = prefix(topic_id, FIRST_GENERATION), prefix(topic_id, generation)
        with self._store.scan(MESSAGE, start, after_prefix(own), reverse=True, limit=1) as rows:
            row_key = next((key for key, _ in rows), None)
        if row_key is None:
            return LastKeys(None, None)
        key = row_key[-KEY_BYTES:]
        return LastKeys(key, key if row_key.startswith(own) else None)

    def own_entries(
        self,
        topic_prefix: bytes,
        first_key: bytes,
        last_key: bytes,
        write_pointer: int,
        *,
        limit: int,
        bytes_max: int,
    ) -> OwnEntries:
        """Return which of the first `limit` entries in the range, ends inclusive, have the pointer.

        Stops once their values have `bytes_max` bytes.
        """
        entries: list[tuple[bytes, bytes]] = []
        own = seen = size = 0
        next_key = None
        start, stop = topic_prefix + first_key, topic_prefix + last_key + b"\x00"
        with self._store.scan(MESSAGE, start, stop, limit=limit) as rows:
            for key, value in rows:
                seen += 1
                next_key = key_after(key[-KEY_BYTES:])
                pointer = entry_pointer_of(value)
                if pointer == PLAIN:
                    continue
                own += abs(pointer) == write_pointer
                if pointer == write_pointer:
                    entries.append((key, value))
                    size += len(value)
                    if size >= bytes_max:
                        break
        is_cut = seen == limit or size >= bytes_max
        return OwnEntries(entries, own, seen - own, next_key if is_cut else None)

    def invert(self, batch: Batch, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Add to `batch` the rows of `own_entries` with their write pointer's sign inverted.

        Raises `StoreUnavailable` if an earlier write of one may still take effect.
        """
        self._store.check_unanswered(MESSAGE, [key for key, _ in rows])
        batch.put_rows(MESSAGE, [(key, inverted(value)) for key, value in rows])
