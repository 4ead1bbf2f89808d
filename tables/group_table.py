"""The Group table: for each group the log of its state, and snapshots of it.

    log row key    := prefix, 0x00 "g", name, 0x00, token int64, number int64
    snapshot keys  := prefix, 0x00 "s", name, 0x00, token int64, number int64, and then as
                      `tables.chunked_values` says
    snapshot value := count uint32, older*, snapshot
    older          := token int64, number int64, chunks uint32
    fence keys     := prefix, 0x00 "g", name, 0x00          before the log
                | prefix, 0x00 "g", name, 0x01          after it
                | prefix, 0x00 "s", name, 0x01          after the snapshots

Big-endian. DO NOT CHANGE: on disk. `tables.keys` defines `prefix`. Log rows and snapshots are
opaque here: `tms.messaging.groups` encodes them. A fence has an empty value.

**What counts** is the latest whole snapshot, by token and then by number, and the rows of its token
from its number on, without a gap. Late rows of an earlier leader have a smaller token. Rows of an
earlier group of that name have smaller numbers.

**No search passes deleted rows**: until the store has merged its files, passing a deleted row costs
as much as reading it. The latest snapshot is found backwards from the fence after it, and rows are
read up to the fence of the log. Fences always exist, so no search reads beyond the rows that count,
and no other search reads into them. The snapshot itself says what to delete: it names the `older`
snapshots that may still exist, with the rows after them.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from tables import chunked_values
from tables.keys import prefix_of
from tables.store import GROUP, Row, Store
from tms.core.errors import StoreCorrupt
from tms.core.values.batch import Batch

_LOG = b"\x00g"
_SNAPSHOT = b"\x00s"
_ROWS = b"\x00"
_FENCE = b"\x01"
_PLACE = struct.Struct(">qq")
_COUNT = struct.Struct(">I")
_OLDER = struct.Struct(">qqI")


class _Snapshot(NamedTuple):
    """The place of a snapshot, whole or not."""

    token: int
    number: int
    chunks: int
    """The number of chunks that may exist."""


class _Keys:
    """The keys of one group."""

    def __init__(self, topic_prefix: bytes, name: str) -> None:
        log, snapshot = (
            topic_prefix + _LOG + name.encode(),
            topic_prefix + _SNAPSHOT + name.encode(),
        )
        self.log_start, self.log_fence = log + _ROWS, log + _FENCE
        self.snapshot_start, self.snapshot_fence = snapshot + _ROWS, snapshot + _FENCE
        self.fences = (self.log_start, self.log_fence, self.snapshot_fence)

    def corrupt(self, reason: str, number: int | None = None) -> StoreCorrupt:
        """Return the error for damage, with the row's number if there is one."""
        where = {} if number is None else {"number": number}
        topic_id, _, prefix = prefix_of(self.log_start)
        group = self.log_start[len(prefix) + len(_LOG) : -len(_ROWS)].decode(errors="replace")
        return StoreCorrupt(table=GROUP, topic=str(topic_id), group=group, reason=reason, **where)

    def log(self, token: int, number: int) -> bytes:
        """Return the key of a row of the log."""
        return self.log_start + _PLACE.pack(token, number)

    def snapshot(self, token: int, number: int) -> bytes:
        """Return the start of the keys of a snapshot."""
        return self.snapshot_start + _PLACE.pack(token, number)

    def of_snapshot(self, snapshot: _Snapshot) -> Iterator[bytes]:
        """Yield the keys of a snapshot, its end first."""
        start = self.snapshot(snapshot.token, snapshot.number)
        yield chunked_values.end_key(start)
        for number in range(snapshot.chunks):
            yield chunked_values.chunk_key(start, number)


class _Rows(NamedTuple):
    """The rows of a group that may exist."""

    latest: _Snapshot
    """The one that counts, with the rows of its token from its number up to `next_number`."""
    next_number: int
    older: Sequence[_Snapshot] = ()
    """Ascending. Each may exist, and so may the rows after it, up to the number of the next."""
    begun: Sequence[_Snapshot] = ()
    """Those begun after `latest` that are not whole."""


class StoreGroupLog:
    """The log of one group, from when it was begun or read.

    It counts the rows itself, so read the group again after a failed flush. `append` may run at the
    same time as `put_snapshot` or `drop`; no other two calls may.
    """

    def __init__(self, store: Store, keys: _Keys, token: int, rows: _Rows) -> None:
        """Append under `token` to the existing `rows`."""
        self._store = store
        self._keys = keys
        self._token = token
        self._latest, self.next_number, self._older, self._begun = rows
        self._remaining: Iterator[bytes] | None = None
        self._dropping: list[bytes] = []
        """Taken from `_remaining`; may not be deleted yet."""

    @property
    def is_own(self) -> bool:
        """Whether rows can be appended. If not, put a snapshot of `next_number` first."""
        return self._latest.token == self._token

    @property
    def has_older(self) -> bool:
        """Whether there may be rows below the latest snapshot, which `drop` deletes."""
        return bool(self._older)

    def append(self, batch: Batch, row: bytes) -> None:
        """Add to `batch` the next row of the log."""
        assert self.is_own, "a snapshot under the own token comes first"
        batch.put(GROUP, self._keys.log(self._token, self.next_number), row)
        self.next_number += 1

    def put_snapshot(self, number: int, snapshot: bytes) -> None:
        """Put a snapshot; durable when it returns. An existing one is kept."""
        assert self._latest.number <= number <= self.next_number
        place = (self._token, number)
        if place == self._latest[:2]:
            return
        others = sorted({*self._older, *self._begun, self._latest})
        older = [other for other in others if other[:2] != place]
        value = _encoded(older, snapshot)
        for row in chunked_values.rows_of(self._keys.snapshot(*place), value):
            batch = self._store.batch()
            batch.put(GROUP, *row)
            self._store.write(batch)
        chunks_before = [each.chunks for each in self._begun if each[:2] == place]
        chunks = max(chunked_values.chunks_of(value), *chunks_before, 0)
        self._older, self._begun, self._latest = tuple(older), (), _Snapshot(*place, chunks)
        self._remaining = None

    def drop(self, limit: int) -> int:
        """Delete at most `limit` rows below the latest snapshot; return how many keys that was.

        The deletion need not be durable: the next reader of the group deletes again what reappears.
        Raises `StoreUnavailable` if an earlier write of one of them may still take effect; repeat
        it later.
        """
        if not self._dropping:
            if self._remaining is None:
                self._remaining = self._older_keys()
            self._dropping = list(islice(self._remaining, limit))
        keys = self._dropping
        if not keys:
            self._older, self._remaining = (), None
            return 0
        self._store.check_unanswered(GROUP, keys)
        batch = self._store.batch(durable=False)
        batch.delete_rows(GROUP, keys)
        self._store.write(batch)
        self._dropping = []
        return len(keys)

    def _older_keys(self) -> Iterator[bytes]:
        """Yield the keys of all rows below the latest snapshot that may exist."""
        for each, following in pairwise((*self._older, self._latest)):
            for number in range(each.number, following.number):
                yield self._keys.log(each.token, number)
        for older in self._older:
            yield from self._keys.of_snapshot(older)

    def delete(self, batch: Batch) -> None:
        """Add to `batch` the deletion of all rows. Raises `StoreUnavailable` as `drop` does."""
        keys, latest = self._keys, self._latest
        log = [keys.log(latest.token, each) for each in range(latest.number, self.next_number)]
        snapshots = [key for each in (*self._begun, latest) for key in keys.of_snapshot(each)]
        all_keys = [*self._older_keys(), *log, *snapshots, *keys.fences]
        self._store.check_unanswered(GROUP, all_keys)
        batch.delete_rows(GROUP, all_keys)


class StoredGroup(NamedTuple):
    """A group as it is stored."""

    log: StoreGroupLog
    number: int
    """The number of the snapshot and of the first row in `rows`."""
    snapshot: bytes
    rows: Sequence[bytes]


class StoreGroupTable:
    """The logs of groups. The store's feature `groups` is recorded before the first group begins.

    Relies on the topic's subscriptions being read first (`StoreSubscriptionTable.read`).
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def _token(self, topic_prefix: bytes) -> int:  # noqa: ARG002  a sealed store needs it
        """Return the token to append under."""
        return 0

    def begin(
        self, batch: Batch, topic_prefix: bytes, name: str, created: int, snapshot: bytes
    ) -> StoreGroupLog:
        """Add a group's first snapshot to `batch`, which becomes atomic.

        `created` is the first version of its subscription. It is above the numbers of all rows of
        earlier groups of this name.
        """
        keys, token = _Keys(topic_prefix, name), self._token(topic_prefix)
        value = _encoded((), snapshot)
        rows = chunked_values.rows_of(keys.snapshot(token, created), value)
        batch.put_rows(GROUP, [(fence, b"") for fence in keys.fences])
        batch.put_rows(GROUP, rows)
        batch.require_atomic()
        latest = _Snapshot(token, created, chunked_values.chunks_of(value))
        return StoreGroupLog(self._store, keys, token, _Rows(latest, created))

    def read(self, topic_prefix: bytes, name: str, created: int) -> StoredGroup:
        """Return a group as it is stored. Raises `StoreCorrupt`, `StoreUnavailable`."""
        keys, token = _Keys(topic_prefix, name), self._token(topic_prefix)
        there, snapshot, rows = _stored(self._store, keys)
        latest = there.latest
        if latest.number < created:
            raise keys.corrupt("there is no snapshot")
        if latest.token > token:
            self._check_later(latest.token)
            token = latest.token
        log = StoreGroupLog(self._store, keys, token, there)
        return StoredGroup(log, latest.number, snapshot, rows)

    def _check_later(self, token: int) -> None:
        """Raise `StoreUnavailable` if the rows of a greater token are a later leader's."""


def _stored(store: Store, keys: _Keys) -> tuple[_Rows, bytes, list[bytes]]:
    """Return the part of a group that counts: its place, its snapshot, and the rows after it.

    Raises `StoreCorrupt`.
    """
    latest, begun = _latest(store, keys)
    if latest is None:
        raise keys.corrupt("there is no snapshot")
    start = keys.snapshot(latest.token, latest.number)
    with store.scan(GROUP, start, chunked_values.end_key(start) + b"\x00") as scanned:
        value = chunked_values.value_of(start, list(scanned))
    if value is None or len(value) < _COUNT.size:
        raise keys.corrupt("the snapshot is damaged", latest.number)
    older, snapshot = _decoded(value)
    latest = latest._replace(chunks=chunked_values.chunks_of(value))
    rows = _rows_after(store, keys, latest)
    return _Rows(latest, latest.number + len(rows), older, begun), snapshot, rows


def _latest(store: Store, keys: _Keys) -> tuple[_Snapshot | None, list[_Snapshot]]:
    """Return the latest whole snapshot, if any, and those begun after it."""
    stop = keys.snapshot_fence
    begun: list[_Snapshot] = []
    while True:
        with store.scan(GROUP, keys.snapshot_start, stop, reverse=True, limit=1) as scanned:
            key = next((key for key, _ in scanned), None)
        if key is None:
            return None, []
        stop = chunked_values.start_of(key)
        token, number = _PLACE.unpack_from(stop, len(keys.snapshot_start))
        if key == chunked_values.end_key(stop):
            return _Snapshot(token, number, 0), begun[::-1]
        begun.append(_Snapshot(token, number, chunked_values.number_of(key) + 1))


def _rows_after(store: Store, keys: _Keys, latest: _Snapshot) -> list[bytes]:
    """Return the rows from the latest snapshot on. Raises `StoreCorrupt` at a gap."""
    rows: list[bytes] = []
    start = keys.log(latest.token, latest.number)
    with store.scan(GROUP, start, keys.log_fence + b"\x00") as scanned:
        for key, row in scanned:
            if key == keys.log_fence:
                break
            expected = latest.number + len(rows)
            if key != keys.log(latest.token, expected):
                raise keys.corrupt("a row is missing", expected)
            rows.append(row)
    return rows


def _encoded(older: Sequence[_Snapshot], snapshot: bytes) -> bytes:
    return b"".join([_COUNT.pack(len(older)), *(_OLDER.pack(*each) for each in older), snapshot])


def _decoded(value: bytes) -> tuple[list[_Snapshot], bytes]:
    [count] = _COUNT.unpack_from(value)
    end = _COUNT.size + count * _OLDER.size
    older = [_Snapshot(*each) for each in _OLDER.iter_unpack(value[_COUNT.size : end])]
    return older, value[end:]


def row_of_group(topic_prefix: bytes, key: bytes) -> dict[str, Any]:
    """Return the fields of a row's key, for inspection. Raises `StoreCorrupt`."""
    kind, name, end, place = _parts(topic_prefix, key)
    facts: dict[str, Any] = {"group": name.decode(errors="replace")}
    sizes = {(_LOG, 0), (_LOG, _PLACE.size), (_SNAPSHOT, _PLACE.size + chunked_values.NUMBER_BYTES)}
    if end == _FENCE and not place:
        return facts | {"fence": True}
    if end != _ROWS or (kind, len(place)) not in sizes:
        raise StoreCorrupt(table=GROUP, key=key.hex())
    if not place:
        return facts | {"fence": True}
    token, number = _PLACE.unpack_from(place)
    if kind == _LOG:
        return facts | {"token": token, "number": number}
    is_end = key == chunked_values.end_key(chunked_values.start_of(key))
    chunk = {"end": True} if is_end else {"chunk": chunked_values.number_of(key)}
    return facts | {"token": token, "snapshot": number} | chunk


def _parts(topic_prefix: bytes, key: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Return a key's kind, its name, the byte after the name, and the rest."""
    at = len(topic_prefix)
    kind, rest = key[at : at + len(_LOG)], key[at + len(_LOG) :]
    size = next((size for size, byte in enumerate(rest) if byte <= _FENCE[0]), len(rest))
    if kind not in (_LOG, _SNAPSHOT) or not 0 < size < len(rest):
        raise StoreCorrupt(table=GROUP, key=key.hex())
    return kind, rest[:size], rest[size : size + 1], rest[size + 1 :]


def counting_rows(store: Store, topic_prefix: bytes, names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of groups that count, as a lone server writes them. The names ascend.

    Rows ascend. Raises `StoreCorrupt`.
    """
    snapshots: list[Row] = []
    for name in names:
        keys = _Keys(topic_prefix, name)
        there, snapshot, rows = _stored(store, keys)
        number = there.latest.number
        yield keys.log_start, b""
        for each, row in enumerate(rows, number):
            yield keys.log(0, each), row
        yield keys.log_fence, b""
        snapshots += chunked_values.rows_of(keys.snapshot(0, number), _encoded((), snapshot))
        snapshots.append((keys.snapshot_fence, b""))
    yield from snapshots
