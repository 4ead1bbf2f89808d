"""The transactions in progress during a takeover: only they may have late stored messages.

    crossings row key := "c", token int64                       in the Transaction table
    crossings row     := version byte (1), crc32 uint32 over what follows,
                         since int64, write pointers int64 each, ascending

A leader records the transactions in progress when it begins, together with those that the leader
before it recorded. So one row counts: that of the leader that began the last segment of the log
(`tms.transactions.segments`). If that leader wrote none, because it has an older version or died
too early, the record starts from scratch.

Late rows of earlier leaders do no harm, because nobody reads them; the next leader deletes them.
Versions that do not know these rows ignore them, and seal each run.

Big-endian. DO NOT CHANGE: stored.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass
from zlib import crc32

from tables.keys import after_prefix
from tables.store import TRANSACTION, Store
from tms.core.errors import StoreCorrupt
from tms.core.runtime.repeatable import repeatable

POINTERS_MAX = 10_000
"""The number kept in a row: the greatest. All transactions up to the others count as crossings."""
_KIND = b"c"
_NUMBER = struct.Struct(">q")
_VERSION = 1
_START = struct.Struct(">BI")


@dataclass(frozen=True, slots=True)
class Crossings:
    """The write pointers of transactions that were in progress during a takeover."""

    since: int
    """Any transaction up to this one may have been in progress."""
    pointers: frozenset[int] = frozenset()
    """The other transactions that were in progress."""

    def has_none_of(self, pointer: int) -> bool:
        """Whether a transaction was not in progress during any takeover."""
        return pointer > self.since and pointer not in self.pointers

    def with_those(self, in_progress: Collection[int]) -> "Crossings":
        """Return the crossings after the next takeover, during which these are in progress."""
        crossing = sorted({each for each in (*self.pointers, *in_progress) if each > self.since})
        dropped, kept = crossing[:-POINTERS_MAX], crossing[-POINTERS_MAX:]
        return Crossings(max(dropped, default=self.since), frozenset(kept))


def encode_crossings(crossings: Crossings) -> bytes:
    """Return the row."""
    numbers = (crossings.since, *sorted(crossings.pointers))
    body = b"".join(map(_NUMBER.pack, numbers))
    return _START.pack(_VERSION, crc32(body)) + body


def decode_crossings(row: bytes) -> Crossings:
    """Decode a row. Raises `StoreCorrupt`."""
    body = row[_START.size :]
    is_whole = row[: _START.size] == _START.pack(_VERSION, crc32(body))
    if not is_whole or not body or len(body) % _NUMBER.size:
        raise StoreCorrupt(table=TRANSACTION, reason="the record of takeovers is damaged")
    since, *pointers = (number for [number] in _NUMBER.iter_unpack(body))
    return Crossings(since, frozenset(pointers))


@repeatable()
def take_over(
    store: Store, token: int, last_token: int, before: int, in_progress: Collection[int]
) -> Crossings:
    """Record and return the crossings, including those of this leader's takeover. Blocks.

    `last_token` is that of the last segment of the log before this leader's. If its leader recorded
    nothing, all transactions up to the write pointer `before` may have been in progress during an
    earlier takeover. Raises `StoreUnavailable`, `StoreCorrupt`.
    """
    with store.scan(TRANSACTION, _KIND, after_prefix(_KIND)) as scanned:
        rows = dict(scanned)
    last = rows.get(_key(last_token))
    recorded = Crossings(before) if last is None else decode_crossings(last)
    crossings = recorded.with_those(in_progress)
    batch = store.batch()
    batch.put(TRANSACTION, _key(token), encode_crossings(crossings))
    old = [key for key in rows if key < _key(last_token)]
    if old:
        batch.delete_rows(TRANSACTION, old)
    store.write(batch)
    return crossings


def _key(token: int) -> bytes:
    return _KIND + _NUMBER.pack(token)
