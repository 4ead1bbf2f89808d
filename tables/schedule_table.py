"""The Group table's rows of schedules: messages that wait in a topic until they are due.

    scheduled key   := prefix, 0x00 "d", due int64 ms, number int64
    scheduled value := 0x00 payload | 0x03 frame payload           as a plain message's value
    tombstone key   := scheduled key, 0x00                         that message was cancelled
    watermark key   := prefix, 0x00 "e", token int64
    watermark value := due int64 ms, number int64

Big-endian. DO NOT CHANGE: on disk. `prefix` is that of `tables.keys`. A tombstone has no value.

**What counts** are the scheduled rows after the watermark that have no tombstone. Of several
watermarks the one with the greatest token counts. Publishing moves the watermark in the batch that
adds the entries. So a row that a server wrote again late, after it was published, does not count.

Only a store elsewhere (HBase) may carry out a write late. There, a late put could bring back the
row of a message that was cancelled, so a tombstone is put. In a store of this process there are
none, and the watermark goes back if the clock was set back.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tables.keys import FRAMED_START, PLAIN_START
from tables.store import GROUP, Row, Store
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.values.batch import Batch
from tms.core.values.frame import FramedBody, framed_of
from tms.core.values.schedules import (
    FIRST_PLACE,
    LAST_PLACE,
    DuePlace,
    ScheduledRow,
    SchedulePage,
)

_DUE = b"\x00d"
_DUE_END = b"\x00e"
_WATERMARK = b"\x00e"
_WATERMARKS_END = b"\x00f"
_PLACE = struct.Struct(">qq")
_TOKEN = struct.Struct(">q")
_CANCELLED = b"\x00"
_KIND_BYTES = len(_DUE)
_SWEPT_AT_ONCE = 1_000


class ScheduleRows:
    """The schedule of one generation of a topic, as one server writes it.

    Used by one call at a time, but for the methods that only read.
    """

    def __init__(self, store: Store, topic_prefix: bytes, token: int) -> None:
        self._store = store
        self._start = topic_prefix + _DUE
        self._stop = topic_prefix + _DUE_END
        self._watermark = topic_prefix + _WATERMARK + _TOKEN.pack(token)
        self.may_go_back = store.is_embedded
        """Whether no row comes late, so that a lower watermark brings none back."""

    def _key(self, place: DuePlace) -> bytes:
        return self._start + _PLACE.pack(*place)

    def _place(self, key: bytes) -> DuePlace:
        return DuePlace(*_PLACE.unpack_from(key, len(self._start)))

    def put(self, batch: Batch, rows: Sequence[ScheduledRow]) -> None:
        """Add to `batch` messages that wait."""
        batch.put_rows(GROUP, [(self._key(each.place), _value(each.body)) for each in rows])

    def put_new(
        self, batch: Batch, due_ms: int, numbers: Sequence[int], bodies: Sequence[bytes]
    ) -> list[str]:
        """Add to `batch` messages that are due at one time; return their ids. `put` for many."""
        due = due_ms.to_bytes(_TOKEN.size)
        keys = [due + number.to_bytes(_TOKEN.size) for number in numbers]
        if framed_of(bodies):
            batch.put_rows(GROUP, zip(keys, map(_value, bodies), strict=True), self._start)
        else:
            batch.put_rows(GROUP, zip(keys, bodies, strict=True), self._start, PLAIN_START)
        return [key.hex() for key in keys]

    def cancel(self, batch: Batch, place: DuePlace) -> None:
        """Add to `batch` what keeps a message from being published.

        Raises `StoreUnavailable` if an earlier write of it may come late; repeat it later.
        """
        key = self._key(place)
        self._store.check_unanswered(GROUP, [key, key + _CANCELLED])
        if not self.may_go_back:
            batch.put(GROUP, key + _CANCELLED, b"")
        batch.delete(GROUP, key)
        batch.require_atomic()

    def go_back(self, batch: Batch, watermark: DuePlace) -> None:
        """Add to `batch` a lower watermark, after which no row is left that was published."""
        assert self.may_go_back
        batch.put(GROUP, self._watermark, _PLACE.pack(*watermark))

    def publish(self, batch: Batch, page: SchedulePage, through: DuePlace) -> None:
        """Add to `batch` that everything up to a place is published, the rows of `page`.

        Raises `StoreUnavailable` if the last watermark may come late; repeat it later.
        """
        self._store.check_unanswered(GROUP, [self._watermark])
        batch.put(GROUP, self._watermark, _PLACE.pack(*through))
        cancelled = [self._key(each) for each in page.cancelled]
        keys = [*page.keys, *cancelled]
        keys += [each + _CANCELLED for each in cancelled]
        with suppress(StoreUnavailable):  # if one may come late, it does not count: `sweep` has it
            self._store.check_unanswered(GROUP, keys)
            batch.delete_rows(GROUP, keys)
        batch.require_atomic()

    def has(self, place: DuePlace) -> bool:
        """Whether a message waits at a place, which is after the watermark."""
        key = self._key(place)
        if self._store.get(GROUP, key) is None:
            return False
        return self._store.get(GROUP, key + _CANCELLED) is None

    def page(
        self, after: DuePlace, through: DuePlace, *, rows_max: int, bytes_max: int = 1 << 62
    ) -> SchedulePage:
        """Return what waits after a place, up to another: at least one row, if there is one.

        At most `rows_max`, and no more once `bytes_max` are reached. Raises `StoreCorrupt`.
        """
        keys: list[bytes] = []
        bodies: list[bytes] = []
        cancelled: list[DuePlace] = []
        size = 0
        last, key_bytes = self._key(through) + _CANCELLED, len(self._start) + _PLACE.size
        # After a tombstone of `after` too, which does not matter any more.
        with self._store.scan(GROUP, self._key(after) + b"\x01", self._stop) as found:
            for key, value in found:
                if key > last:
                    return SchedulePage(keys, bodies, cancelled, self._place(key))
                if len(key) > key_bytes:  # a tombstone
                    if keys and key.startswith(keys[-1]):
                        del keys[-1], bodies[-1]
                    cancelled.append(self._place(key))
                elif len(keys) >= rows_max or size >= bytes_max or len(cancelled) > rows_max:
                    return SchedulePage(keys, bodies, cancelled, self._place(key))
                else:
                    keys.append(key)
                    bodies.append(_body(key, value))
                    size += len(value)
        return SchedulePage(keys, bodies, cancelled, None)

    def count(self, after: DuePlace, *, limit: int) -> tuple[int, DuePlace | None]:
        """Return how many of the next `limit` rows wait, and where to continue; None at the end."""
        count, last = 0, after
        scanned = 0
        with self._store.scan(GROUP, self._key(after) + b"\x01", self._stop, limit=limit) as found:
            for key, _ in found:
                scanned += 1
                is_tombstone = len(key) > len(self._start) + _PLACE.size
                place = self._place(key)
                count += -1 if is_tombstone and place == last else not is_tombstone
                last = place
        return count, last if scanned == limit else None

    def sweep(self, watermark: DuePlace) -> None:
        """Delete rows up to the watermark, which do not count; some may be left."""
        start, stop = self._start, self._key(watermark) + b"\x01"
        with self._store.scan(GROUP, start, stop, limit=_SWEPT_AT_ONCE) as found:
            keys = [key for key, _ in found]
        if not keys:
            return
        with suppress(StoreUnavailable):
            self._store.check_unanswered(GROUP, keys)
            batch = self._store.batch(durable=False)
            batch.delete_rows(GROUP, keys)
            self._store.write(batch)


class StoredSchedule(NamedTuple):
    """A schedule as it is stored."""

    rows: ScheduleRows
    watermark: DuePlace


class StoreScheduleTable:
    """The schedules of topics. The store's feature `schedules` is recorded before there is one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _token(self) -> int:
        """Return the token to write under; 0 where no leader is."""
        return 0

    def read(self, topic_prefix: bytes) -> StoredSchedule:
        """Return the schedule of a topic, which may be empty. Raises `StoreUnavailable`."""
        token, watermark = _watermark(self._store, topic_prefix)
        own = self._token()
        if token > own > 0:
            raise StoreUnavailable(reason="a later leader has the schedule", later_token=token)
        return StoredSchedule(ScheduleRows(self._store, topic_prefix, max(own, token)), watermark)


def _watermark(store: Store, topic_prefix: bytes) -> tuple[int, DuePlace]:
    """Return the token and the place of the watermark that counts. Raises `StoreCorrupt`."""
    start, stop = topic_prefix + _WATERMARK, topic_prefix + _WATERMARKS_END
    with store.scan(GROUP, start, stop, reverse=True, limit=1) as found:
        row = next(iter(found), None)
    if row is None:
        return 0, FIRST_PLACE
    key, value = row
    if len(key) != len(start) + _TOKEN.size or len(value) != _PLACE.size:
        raise StoreCorrupt(table=GROUP, key=key.hex())
    return _TOKEN.unpack_from(key, len(start))[0], DuePlace(*_PLACE.unpack(value))


def _value(body: bytes) -> bytes:
    return (FRAMED_START if isinstance(body, FramedBody) else PLAIN_START) + body


def _body(key: bytes, value: bytes) -> bytes:
    if value.startswith(PLAIN_START):
        return value[1:]
    if value.startswith(FRAMED_START):
        return FramedBody(value[1:])
    raise StoreCorrupt(table=GROUP, key=key.hex())


def row_of_schedule(topic_prefix: bytes, key: bytes) -> dict[str, Any] | None:
    """Return the fields of a schedule row's key; None for other rows. Raises `StoreCorrupt`."""
    kind = key[len(topic_prefix) : len(topic_prefix) + _KIND_BYTES]
    rest = key[len(topic_prefix) + _KIND_BYTES :]
    if kind == _WATERMARK and len(rest) == _TOKEN.size:
        return {"watermark": True, "token": _TOKEN.unpack(rest)[0]}
    if kind == _DUE and rest[_PLACE.size :] in (b"", _CANCELLED) and len(rest) >= _PLACE.size:
        place = DuePlace(*_PLACE.unpack_from(rest))
        facts: dict[str, Any] = {"scheduled": place.id, "due_ms": place.due_ms}
        return facts | ({"cancelled": True} if rest[_PLACE.size :] else {})
    if kind in (_DUE, _WATERMARK):
        raise StoreCorrupt(table=GROUP, key=key.hex())
    return None


def counting_rows(store: Store, topic_prefix: bytes) -> Iterator[Row]:
    """Give the rows of a schedule that count, as a lone server writes them. They ascend.

    Raises `StoreCorrupt`.
    """
    _, watermark = _watermark(store, topic_prefix)
    rows = ScheduleRows(store, topic_prefix, 0)
    after: DuePlace | None = watermark
    while after is not None:
        page = rows.page(after, LAST_PLACE, rows_max=_SWEPT_AT_ONCE)
        for each in page.rows:
            yield topic_prefix + _DUE + _PLACE.pack(*each.place), _value(each.body)
        ends = [*(each.place for each in page.rows[-1:]), *page.cancelled[-1:]]
        after = max(ends) if page.next is not None else None
    if watermark != FIRST_PLACE:
        yield topic_prefix + _WATERMARK + _TOKEN.pack(0), _PLACE.pack(*watermark)
