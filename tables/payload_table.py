"""The Payload table: payloads stored before the transaction that wrote them publishes them.

Rows are ordered by write pointer, then by the time and sequence of the store, so a reference in the
Message table means one contiguous run. A rollback leaves them: nothing refers to them, and
TTL removes them.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter

from tables.keys import FRAMED_END, after_prefix, payload_key_of, payload_prefix
from tables.rows_to_items import read_payloads
from tables.store import PAYLOAD, Row, Store
from tms.core.values.batch import Batch
from tms.core.values.frame import framed_of
from tms.core.values.message import MessageBlock
from tms.core.values.stored_runs import ReadRun, Reference

_GAP_ROWS_MAX = 64
"""After this number of consecutive unneeded rows, a new scan begins at the next range."""
_NOTHING = MessageBlock(0, b"")


class StorePayloadTable:
    """Payloads stored before their transaction publishes them, by write pointer and time."""

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
        """Add the bodies to `batch`, each under the write pointer and its key."""
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
        """Return payloads from `first_key` on as messages under the reference at `message_key`.

        Return at most `limit` of them, and stop once `bytes_max` are reached, but at least one if
        there is one; none from `stop_key` on. The second value is the key to continue from, None if
        no more remain.
        """
        start = payload_prefix(topic_prefix, write_pointer)
        stop = after_prefix(start) if stop_key is None else start + stop_key
        with self._store.scan(PAYLOAD, start + first_key, stop, limit=limit + 1) as rows:
            return read_payloads(rows, message_key, len(start), limit=limit, bytes_max=bytes_max)

    def read_runs(
        self, topic_prefix: bytes, references: Sequence[Reference], *, limit: int, bytes_max: int
    ) -> list[ReadRun]:
        """Return the stored messages of the first references, at least of one, in few scans.

        The write pointers ascend, whatever their sign. All runs together have at most `limit`
        messages, and end once they have `bytes_max` bytes; the last run may be cut.
        """
        if len(references) == 1:
            [only] = references
            key, pointer, first_key = only
            part = self.read(
                topic_prefix, pointer, key, first_key, limit=limit, bytes_max=bytes_max
            )
            return [ReadRun(*only, *part)]
        runs: list[ReadRun] = []

        def add(block: MessageBlock, next_key: bytes | None) -> None:
            runs.append(ReadRun(*references[len(runs)], block, next_key))

        prefixes = [
            payload_prefix(topic_prefix, reference.write_pointer) for reference in references
        ]
        ranges = [
            (start + reference.first_key, after_prefix(start))
            for start, reference in zip(prefixes, references, strict=True)
        ]
        with closing(self._rows(ranges)) as scanned:
            for index, rows in groupby(scanned, key=itemgetter(0)):
                while len(runs) < index:
                    add(_NOTHING, None)
                block, next_key = read_payloads(
                    map(itemgetter(1), rows),
                    references[index].message_key,
                    len(prefixes[index]),
                    limit=limit,
                    bytes_max=bytes_max,
                )
                add(block, next_key)
                limit -= block.count
                bytes_max -= len(block.items)
                if limit <= 0 or bytes_max <= 0:
                    return runs
        while len(runs) < len(references):
            add(_NOTHING, None)
        return runs

    def _rows(
        self, ranges: Sequence[tuple[bytes, bytes]]
    ) -> Generator[tuple[int, Row], None, None]:
        """Yield the rows of ranges, which ascend, each with the index of its range.

        One scan covers all of them, unless many rows lie between two.
        """
        index = 0
        while index < len(ranges):
            gap = 0
            with self._store.scan(PAYLOAD, ranges[index][0], ranges[-1][1]) as rows:
                for row in rows:
                    while row[0] >= ranges[index][1]:
                        index += 1
                    if row[0] >= ranges[index][0]:
                        gap = 0
                        yield index, row
                        continue
                    gap += 1
                    if gap > _GAP_ROWS_MAX:
                        break
                else:
                    return

    def size_bytes(
        self, topic_prefix: bytes, write_pointer: int, first_key: bytes, stop_key: bytes
    ) -> int:
        """Return approximately how many bytes are stored from `first_key` to before `stop_key`."""
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
