"""The Payload table: payloads stored before the transaction that wrote them publishes them.

Rows are ordered by write pointer, then by the time and sequence of the store, so that a reference
in the Message table stands for one contiguous run. A rollback leaves them: nothing points to them
any more, and TTL removes them.
"""

from collections.abc import Sequence

from tables.keys import FRAMED_END, after_prefix, payload_key_of, payload_prefix
from tables.rows_to_items import read_payloads
from tables.store import PAYLOAD, Store
from tms.core.frame import framed_of
from tms.core.message import MessageBlock
from tms.core.tables import Batch


class StorePayloadTable:
    """The Payload table on any Store. Fulfils `tms.core.tables.PayloadTable`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(
        self,
        batch: Batch,
        topic_prefix: bytes,
        write_pointer: int,
        keys: Sequence[bytes],
        bodies: Sequence[bytes],
    ) -> None:
        """Add the bodies, each under the write pointer and its key."""
        prefix = payload_prefix(topic_prefix, write_pointer)
        framed = framed_of(bodies)
        if framed:
            keys = list(keys)
            for index in framed:
                keys[index] += FRAMED_END
        batch.put_rows(PAYLOAD, zip(keys, bodies, strict=True), prefix)

    def read(
        self,
        topic_prefix: bytes,
        write_pointer: int,
        message_key: bytes,
        first_key: bytes,
        *,
        limit: int,
        bytes_max: int,
        stop_key: bytes | None = None,
    ) -> tuple[MessageBlock, bytes | None]:
        """Return payloads from `first_key` on as messages, and the key to go on from."""
        start = payload_prefix(topic_prefix, write_pointer)
        stop = after_prefix(start) if stop_key is None else start + stop_key
        with self._store.scan(PAYLOAD, start + first_key, stop, limit=limit + 1) as rows:
            return read_payloads(rows, message_key, len(start), limit=limit, bytes_max=bytes_max)

    def size_bytes(
        self, topic_prefix: bytes, write_pointer: int, first_key: bytes, stop_key: bytes
    ) -> int:
        """Return about how many bytes are stored from `first_key` to before `stop_key`."""
        start = payload_prefix(topic_prefix, write_pointer)
        return self._store.size_bytes(PAYLOAD, start + first_key, start + stop_key)

    def first_key(self, topic_prefix: bytes, write_pointer: int) -> bytes | None:
        """Return the smallest key stored under `write_pointer`, None if none."""
        start = payload_prefix(topic_prefix, write_pointer)
        with self._store.scan(PAYLOAD, start, after_prefix(start), limit=1) as rows:
            return next((payload_key_of(key) for key, _ in rows), None)

    def is_empty(self, topic_prefix: bytes) -> bool:
        """Whether nothing is stored for a topic's generation."""
        with self._store.scan(PAYLOAD, topic_prefix, after_prefix(topic_prefix), limit=1) as rows:
            return next(rows, None) is None

    def last_key(self, topic_prefix: bytes, write_pointer: int) -> bytes | None:
        """Return the greatest key stored under `write_pointer`, None if none."""
        start = payload_prefix(topic_prefix, write_pointer)
        stop = after_prefix(start)
        with self._store.scan(PAYLOAD, start, stop, reverse=True, limit=1) as rows:
            return next((payload_key_of(key) for key, _ in rows), None)
