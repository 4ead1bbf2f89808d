"""Copies topics from one store into another: rows are unchanged, so ids and positions stay.

All rows of a topic are copied, of all its generations: first payloads, messages, positions and
groups. They are then compared with the source row by row. The metadata come last, so readers of the
target see a topic only when it is complete. Nothing may write to the source during the copy.

A mark for each topic records the progress with the rows, so an interrupted copy continues. The
marks are deleted when all topics are done. A topic in the target that has no mark is never written
to. If it is a copy that was complete before, it is compared again before anything is written;
otherwise it is another topic, and the copy is refused.

    mark key := "copy:", metadata row key                       in the target's Bound table
    mark     := JSON {"source", "table", "key", "rows", "digest"}

`key` is the last copied key of `table`, in hexadecimal digits; `table` "metadata" means that all
rows are copied. `digest` is a digest of the topic's last rows in the source at the beginning. One
mark without a topic exists while the others are deleted.

Only the positions and groups that count are copied, as plain rows. Rows that a cluster's seals hide
are not copied. A feature of the source is recorded in the target before anything is copied.

Entries of the source's invalid transactions are inverted on the way, as a rollback does, so the
target need not know that they are invalid.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any

from tables.keys import after_prefix, entry_pointer_of, inverted, topic_of
from tables.raising import shown_rows
from tables.sealing.groups import plain_group_rows
from tables.sealing.positions import plain_rows
from tables.store import (
    BOUND,
    GROUP,
    MESSAGE,
    METADATA,
    PAYLOAD,
    SUBSCRIPTION,
    Row,
    Store,
    tables_with,
)
from tables.store_tables import StoreTables
from tables.transaction_table import StoreTransactionTable
from tms.core.errors import CopyRefused
from tms.core.runtime.repeatable import repeatable
from tms.core.services.mark import encode_mark, latest_mark
from tms.core.values.entries import PLAIN
from tms.core.values.topic import TopicId

_MARK = b"copy:"
_ORDER = (PAYLOAD, MESSAGE, SUBSCRIPTION, GROUP)
_ROWS_MAX = 5_000
_BYTES_MAX = 4 * 1024 * 1024
_ROWS_BETWEEN_STEPS = 10_000
_PAGE = 500
_ANOTHER = "the target has or had another topic with this name, or one of the two has changed"


@dataclass(frozen=True, slots=True)
class CopyStep:
    """The result of one step."""

    copied_rows: int = 0
    copied_bytes: int = 0
    compared_rows: int = 0
    topics: int = 0
    """The topics that this step completed."""


class Copying:
    """A copy of the topics of one store."""

    def __init__(
        self,
        source: Store,
        target: Store,
        name: str,
        is_there: Callable[[TopicId], bool] | None = None,
    ) -> None:
        """Copy from the source, whose `name` must be the same each time.

        If the target is a shard, `is_there` says whether a topic belongs to it.
        """
        self._source = source
        self._target = target
        self._name = name
        self._is_there = is_there
        self._invalids: Collection[int] = ()
        self._taken: Collection[int] = ()
        self.topics_count = sum(1 for _ in self._topics())

    def _topics(self) -> Iterator[Row]:
        """Yield the rows of the Metadata table as the target gets them."""
        start = b""
        while True:
            shown = shown_rows(self._source)
            with self._source.scan(METADATA, start, b"\xff", limit=_PAGE) as scanned:
                rows = list(scanned)
            for key, row in rows:
                if self._is_there is None or self._is_there(topic_of(key)):
                    yield key, shown(row)
            if len(rows) < _PAGE:
                return
            start = rows[-1][0] + b"\x00"

    def check(self) -> None:
        """Raise `CopyRefused` if a topic cannot be copied; write nothing.

        That is so if the target has another topic of that name, or if the source has changed since
        the copy began.
        """
        if not self._is_done():
            for key, row in self._topics():
                self._mark_of(key, row)

    def steps(
        self, invalids: Collection[int], taken: Collection[int]
    ) -> Generator[CopyStep, None, None]:
        """Copy what the target lacks, yielding each step when it is done.

        `invalids` are the source's invalid write pointers; `taken` those that are in progress or
        invalid in the target, where they mean other transactions. Raises `CopyRefused` as `check`
        does, and if rows differ after the copy; `StoreUnavailable`, `StoreCorrupt`.
        """
        self._invalids, self._taken = invalids, taken
        with repeatable():
            is_done = self._is_done()
            if not is_done:
                for feature in self._source.features() - self._target.features():
                    self._target.add_feature(feature)
                yield from self._compare_complete()
            wrote = is_done
            for key, row in self._topics():
                mark = None if is_done else self._mark_of(key, row)
                if mark is not None and mark["table"] != METADATA:
                    yield from self._copy(key, mark)
                    yield from self._compare(key, "the rows differ after the copy")
                    self._finish(key, row, mark)
                wrote = wrote or mark is not None
                yield CopyStep(topics=1)
            if wrote:
                self._forget()

    def _compare_complete(self) -> Iterator[CopyStep]:
        """Compare the topics that were complete before. Raises `CopyRefused`."""
        for key, row in self._topics():
            if self._mark_of(key, row) is None:
                yield from self._compare(key, _ANOTHER)

    def _is_done(self) -> bool:
        """Whether all rows are copied, and only marks remain to be deleted."""
        value = self._target.get(BOUND, _MARK)
        return value is not None and json.loads(value)["source"] == self._name

    def _mark_of(self, key: bytes, row: bytes) -> dict[str, Any] | None:
        """Return the progress of a topic, None if it seems complete. Raises `CopyRefused`.

        `row` is its metadata in the source.
        """
        value = self._target.get(BOUND, _MARK + key)
        topic = key.decode(errors="replace").rstrip(":")
        digest = self._digest(key, row)
        if value is None:
            if self._target.get(METADATA, key) == row and self._ends_alike(key):
                return None
            if any(_first_key(self._target, table, key) for table in (METADATA, *_ORDER)):
                raise CopyRefused(topic=topic, reason=_ANOTHER)
            return {"source": self._name, "table": "", "key": "", "rows": 0, "digest": digest}
        mark: dict[str, Any] = json.loads(value)
        if mark["source"] != self._name:
            raise CopyRefused(
                topic=topic,
                reason=f"it is being copied from {mark['source']}; finish that copy first",
            )
        if mark["digest"] != digest:
            raise CopyRefused(
                topic=topic,
                reason="the source has changed since the copy started: copy into an empty target",
            )
        return mark

    def _ends_alike(self, topic: bytes) -> bool:
        """Whether the topic's last rows have the same keys in both stores."""
        stores = (self._source, self._target)
        ends = [[_last_rows(store, table, topic) for table in _ORDER] for store in stores]
        mine, theirs = [[[key for key, _ in rows] for rows in tables] for tables in ends]
        return mine == theirs

    def _digest(self, key: bytes, row: bytes) -> str:
        """Return a digest that changes when anything is added to the topic in the source."""
        parts = [row]
        for table in _ORDER:
            parts += [b"".join(row) for row in _last_rows(self._source, table, key)]
        return sha256(b"\x00".join(parts)).hexdigest()

    def _copy(self, topic: bytes, mark: dict[str, Any]) -> Iterator[CopyStep]:
        """Copy the rows of a topic, from the place in `mark`."""
        begun = _ORDER.index(mark["table"]) if mark["table"] else 0
        after = bytes.fromhex(mark["key"])
        if not mark["table"]:
            self._put([], topic, {**mark, "table": _ORDER[0]})
        for table in _ORDER[begun:]:
            with _rows_after(self._source, table, topic, after) as rows:
                after = b""
                while part := self._part(table, rows):
                    mark["rows"] += len(part)
                    now = {**mark, "table": table, "key": part[-1][0].hex()}
                    self._put([(table, *row) for row in part], topic, now)
                    size = sum([len(key) + len(value) for key, value in part])
                    yield CopyStep(copied_rows=len(part), copied_bytes=size)

    def _part(self, table: str, rows: Iterator[Row]) -> list[Row]:
        """Return as many of the next rows as go into one write."""
        part: list[Row] = []
        size = 0
        for row in islice(rows, _ROWS_MAX):
            part.append(self._converted(table, row))
            size += len(row[0]) + len(row[1])
            if size >= _BYTES_MAX:
                break
        return part

    def _converted(self, table: str, row: Row) -> Row:
        """Return a row as the target gets it. Raises `CopyRefused`."""
        key, value = row
        pointer = entry_pointer_of(value) if table == MESSAGE else PLAIN
        if pointer in self._invalids:
            return key, inverted(value)
        if pointer > PLAIN and pointer in self._taken:
            raise CopyRefused(
                write_pointer=pointer,
                reason="the target has an open or invalid transaction with this write pointer: "
                "end it, or copy into an empty target",
            )
        return row

    def _put(
        self, rows: list[tuple[str, bytes, bytes]], topic: bytes, mark: dict[str, Any]
    ) -> None:
        batch = self._target.batch()
        for table, key, value in rows:
            batch.put(table, key, value)
        batch.put(BOUND, _MARK + topic, json.dumps(mark).encode())
        self._target.write(batch)

    def _compare(self, topic: bytes, reason: str) -> Iterator[CopyStep]:
        """Compare all rows of a topic. Raises `CopyRefused` with the `reason`."""
        for table in _ORDER:
            with (
                _rows_after(self._source, table, topic) as mine,
                _rows_after(self._target, table, topic) as theirs,
            ):
                pairs = zip_longest(mine, theirs)
                while some := list(islice(pairs, _ROWS_BETWEEN_STEPS)):
                    for own, other in some:
                        if own is None or self._converted(table, own) != other:
                            key = (own or other)[0].hex()
                            raise CopyRefused(table=table, key=key, reason=reason)
                    yield CopyStep(compared_rows=len(some))

    def _finish(self, topic: bytes, row: bytes, mark: dict[str, Any]) -> None:
        """Make the topic visible."""
        is_new = self._target.compare_and_put(METADATA, topic, None, row)
        if not is_new and self._target.get(METADATA, topic) != row:
            raise CopyRefused(
                topic=topic.decode(errors="replace"), reason="it was created there in the meantime"
            )
        self._put([], topic, {**mark, "table": METADATA, "key": ""})

    def _forget(self) -> None:
        """Delete the marks, the copy's own last: topics without marks count as others."""
        if not self._is_done():
            self._put([], b"", {"source": self._name})
        for topic in (*(key for key, _ in self._topics()), b""):
            if self._target.get(BOUND, _MARK + topic) is None:
                continue
            batch = self._target.batch()
            batch.delete(BOUND, _MARK + topic)
            self._target.write(batch)


def _first_key(store: Store, table: str, topic: bytes) -> bytes | None:
    """Return the first key of a topic in a table, None if there is none."""
    if table == GROUP and table not in tables_with(store.features()):
        return None
    with store.scan(table, topic, after_prefix(topic), limit=1) as rows:
        return next((key for key, _ in rows), None)


@contextmanager
def _rows_after(
    store: Store, table: str, topic: bytes, after: bytes = b""
) -> Iterator[Iterator[Row]]:
    """Open an iterator over a topic's rows after a key; positions and groups as plain rows."""
    if table == GROUP:
        has_groups = _first_key(store, table, topic) is not None
        groups = plain_group_rows(store, topic) if has_groups else iter(())
        yield (row for row in groups if row[0] > after)
        return
    start = after + b"\x00" if after and table != SUBSCRIPTION else topic
    with store.scan(table, start, after_prefix(topic)) as rows:
        yield (row for row in plain_rows(rows) if row[0] > after) if table == SUBSCRIPTION else rows


def _last_rows(store: Store, table: str, topic: bytes) -> list[Row]:
    """Return the last row of a topic in a table, if there is one; of groups, all keys.

    A group's rows are not in the order in which they were added.
    """
    if table in (SUBSCRIPTION, GROUP):
        with _rows_after(store, table, topic) as rows:
            return [(key, b"") for key, _ in rows] if table == GROUP else list(deque(rows, 1))
    with store.scan(table, topic, after_prefix(topic), reverse=True, limit=1) as rows:
        return list(rows)


@repeatable()
def carry_mark(source: StoreTransactionTable, target: StoreTables) -> None:
    """Make the target of a copy continue from the source's mark too.

    The target's numbers are then above those of both stores. Its time stays its own, if it has one,
    because it may serve already. Otherwise it gets the source's, as if the source were started
    again, perhaps elsewhere.

    Raises `StoreCorrupt`, `StoreUnavailable`. Blocks.
    """
    theirs, own = latest_mark(source), latest_mark(target.transactions)
    if theirs is None:
        return
    high, forgotten_ms = theirs.high, theirs.forgotten_ms
    if own is not None:
        high, forgotten_ms = max(own.high, high), max(own.forgotten_ms, forgotten_ms)
    carried = replace(own or theirs, high=high, forgotten_ms=forgotten_ms)
    if carried != own:
        batch = target.batch()
        # The row that counts least: if a leader has a row of its own, the time comes from that one.
        target.transactions.put_mark(batch, 0, encode_mark(carried))
        target.write(batch)
