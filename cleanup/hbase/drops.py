"""Deletes rows of a part of a topic, reading only keys, as long as the topic is unchanged.

A cached topic may have got a longer time to live in the meantime, or have been created again. So
its row is read before each write: if it has changed, this pass deletes no more of the topic.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from cleanup.hbase.parts import RegionPart
from cleanup.ranges import Reason, RowRange, Step, last_key
from tables.hbase.regions import KEYS_ONLY
from tables.hbase.store import HBaseStore
from tables.keys import metadata_key
from tables.store import GROUP, MESSAGE, METADATA, SUBSCRIPTION


class TopicChanged(Exception):
    """Raised when a topic has changed since it was cached."""


class PartDrop:
    """Deletes within one part. Implements `cleanup.ranges.Drop`."""

    def __init__(self, store: HBaseStore, part: RegionPart, rows_max: int) -> None:
        """Delete at most `rows_max` rows with one write."""
        self._store = store
        self._part = part
        self._rows_max = rows_max
        self._metadata_key = metadata_key(part.remembered.topic.id)

    def __call__(
        self,
        table: str,
        ranges: Sequence[RowRange],
        *,
        reason: Reason,
        keeps_greatest: bool = False,
    ) -> Iterator[Step]:
        """Delete the rows of the part's table.

        The first part of a topic deletes its subscriptions and groups. Raises `TopicChanged`,
        `StoreUnavailable`; the yielded steps are done then.
        """
        for rows in ranges:
            stop = rows.stop
            if keeps_greatest:
                greatest = last_key(self._store, table, rows.start, rows.end)
                if greatest is not None and greatest < stop:
                    stop = rows.kept = greatest
            yield from self._drop(table, rows.start, stop, reason)

    def _drop(self, table: str, start: bytes, stop: bytes, reason: Reason) -> Iterator[Step]:
        part = self._part
        if table == part.region.table:
            start, stop = max(start, part.start), min(stop, part.stop)
        elif (
            table not in (SUBSCRIPTION, GROUP) or part.region.table != MESSAGE or not part.is_first
        ):
            return
        if start >= stop:
            return
        with self._store.filtered(table, start, stop, KEYS_ONLY) as rows:
            while page := list(islice(rows, self._rows_max)):
                yield self.delete(table, page, len(page), reason)

    def delete(
        self, table: str, rows: list[tuple[bytes, bytes]], scanned: int, reason: Reason
    ) -> Step:
        """Delete rows, paired with the lengths of their values; `scanned` rows were read."""
        if self._store.get(METADATA, self._metadata_key) != self._part.remembered.row:
            raise TopicChanged
        batch = self._store.batch(durable=False)
        batch.delete_rows(table, [key for key, _ in rows])
        self._store.write(batch)
        size = sum([len(key) + int.from_bytes(length) for key, length in rows])
        return Step(table, reason, scanned, len(rows), size)
