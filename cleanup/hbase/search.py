"""Finds entries of invalid transactions in a part of the Message table.

Transactions record the least time that their entries can have; from there on a part is read
completely. HBase filters out rows without a write pointer, or with a lesser one. It answers only
when it has found something, or is at the end. So that no call takes long, a scan covers a span of
time that grows while scans are fast, and otherwise shrinks. The spans begin at the first row and
end at the last, so that times without rows cost no calls.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from time import perf_counter

from cleanup.hbase.parts import RegionPart
from cleanup.ranges import Reason, Step, first_key, last_key
from tables.hbase.regions import value_starts
from tables.hbase.store import HBaseStore
from tables.keys import after_prefix, entry_pointer_of, prefix, transactional_start
from tables.store import MESSAGE, Row
from tms.core.errors import StoreUnavailable
from tms.core.values.message import KEY, KEY_BYTES
from tms.core.values.topic import TopicMetadata

_SPAN_MS_FIRST = 60_000
_SPAN_MS_MIN = 100
_SPAN_MS_MAX = 24 * 3_600_000
_FAST_S = 1.0
_SLOW_S = 5.0
_ROWS_AT_ONCE = 2_000
_BYTES_AT_ONCE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InvalidRows:
    """Message rows, as stored, that a topic has under one invalid write pointer."""

    topic: TopicMetadata
    write_pointer: int
    rows: list[Row]


class Search:
    """Searches the parts of one region, one after another."""

    def __init__(self, store: HBaseStore, pointers: Collection[int], from_ms: int) -> None:
        """Search for entries under `pointers`, at least one, from a time on."""
        self._store = store
        self._pointers = pointers
        self._from_ms = from_ms
        self._filter = value_starts(transactional_start(min(pointers)))
        self._span_ms = _SPAN_MS_FIRST

    def steps(self, part: RegionPart) -> Iterator[InvalidRows | Step]:
        """Yield a part's entries, some twice. Raises `StoreUnavailable`, `StoreCorrupt`."""
        topic = part.remembered.topic
        whole = prefix(topic.id, topic.generation)
        start = max(part.start, whole + KEY.pack(self._from_ms, 0))
        stop = min(part.stop, after_prefix(whole))
        first = first_key(self._store, MESSAGE, start, stop) if start < stop else None
        yield Step(MESSAGE, Reason.INVALID)
        if first is None:
            return
        last = last_key(self._store, MESSAGE, first, stop) or first
        at, stop = first, last + b"\x00"
        while at < stop:
            # A region may begin within a key; the missing bytes count as zeros.
            at_ms, _ = KEY.unpack(at[len(whole) :].ljust(KEY_BYTES, b"\x00")[:KEY_BYTES])
            end = min(stop, whole + KEY.pack(at_ms + self._span_ms, 0))
            began = perf_counter()
            try:
                yield from self._entries(topic, at, end)
            except StoreUnavailable:
                if self._span_ms <= _SPAN_MS_FIRST:
                    raise
                self._span_ms = _SPAN_MS_FIRST
                continue
            took_s = perf_counter() - began
            if took_s < _FAST_S:
                self._span_ms = min(_SPAN_MS_MAX, self._span_ms * 2)
            elif took_s > _SLOW_S:
                self._span_ms = max(_SPAN_MS_MIN, self._span_ms // 2)
            is_long = self._span_ms == _SPAN_MS_MAX  # a clock may have been years ahead
            at = end if not is_long else first_key(self._store, MESSAGE, end, stop) or stop

    def _entries(
        self, topic: TopicMetadata, start: bytes, stop: bytes
    ) -> Iterator[InvalidRows | Step]:
        """Yield the entries between two keys."""
        by_pointer: dict[int, list[Row]] = {}
        scanned = count = size = 0
        with self._store.filtered(MESSAGE, start, stop, self._filter) as rows:
            for row in rows:
                scanned += 1
                pointer = entry_pointer_of(row[1])
                if pointer not in self._pointers:
                    continue
                by_pointer.setdefault(pointer, []).append(row)
                count += 1
                size += len(row[1])
                if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield from (InvalidRows(topic, each, own) for each, own in by_pointer.items())
                    by_pointer, count, size = {}, 0, 0
        yield Step(MESSAGE, Reason.INVALID, scanned=max(1, scanned))
        yield from (InvalidRows(topic, each, own) for each, own in by_pointer.items())
