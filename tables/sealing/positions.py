"""The Subscription table of a store that leaders share: late writes move no position.

    position row key := prefix, name, 00 "p", token int64, version int64
    position row     := version int64, id of the last consumed message (20 bytes, or none)
                        or version int64, 02, settings                  a group
                        or version int64, 00                            a deleted position
    floor row key    := prefix, 00 "p"
    floor row        := token int64

A leader never changes a row: each move is a row of its own, under the leader's token and the
version that the position then has. For each name, the row with the highest token wins; among equal
tokens, the highest version. Rows of a token below the topic's floor do not count.

When a leader first reads a topic's positions, it writes them again under its own token, and then
the floor with that token. So late rows of earlier leaders do not count, and a deletion needs no row
once the next leader has read the topic. Plain rows (`tables.subscription_table`) have the token 0.
A single server writes them, unless a cluster used the store before: then it continues with the
token of the floor.

Rows that no longer count are deleted from time to time. Big-endian. DO NOT CHANGE: stored.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from threading import Lock
from typing import Any, NamedTuple

from tables.keys import after_prefix, prefix_of
from tables.sealing.store import SealedStore
from tables.store import SUBSCRIPTION, Row
from tables.subscription_table import StoreSubscriptionTable, decoded, encoded
from tms.core.errors import StoreCorrupt, StoreUnavailable
from tms.core.runtime.repeatable import repeatable
from tms.core.values.batch import Batch
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicId

_KIND = b"\x00p"
_TOKEN = struct.Struct(">q")
_PLACE = struct.Struct(">qq")
_DELETED = b"\x00"
_KEPT = 16
"""The rows of a position that are kept; after this number of moves the older ones are deleted."""


class _Version(NamedTuple):
    """One row of a position; the greatest counts."""

    token: int
    version: int
    key: bytes
    value: bytes


class _Positions(NamedTuple):
    """The positions in a topic's rows."""

    floor: int
    counting: Sequence[_Version]
    """The row that counts of each name, also of a deleted position."""
    others: Sequence[bytes]
    """The keys of all other rows of positions."""


class SealedSubscriptionTable(StoreSubscriptionTable):
    """The Subscription table of a sealed store."""

    def __init__(self, store: SealedStore) -> None:
        super().__init__(store)
        self._sealed = store
        self._lock = Lock()
        self._floors: dict[bytes, int] = {}
        """The floors, by prefix, of topics that were read and have one."""

    def check_unanswered(self, topic_prefix: bytes, name: str) -> None:
        """Raise `StoreUnavailable` if a plain row may be written late; other rows do no harm."""
        if not self.token_of(topic_prefix):
            super().check_unanswered(topic_prefix, name)

    def put(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add a row of the position to `batch`. Its topic was read before."""
        token = self.token_of(topic_prefix)
        if not token:
            super().put(batch, topic_prefix, subscription)
            return
        start, version = topic_prefix + subscription.name.encode(), subscription.version
        batch.put(SUBSCRIPTION, _key(start, token, version), encoded(subscription))
        if version % _KEPT == 0:
            old = [_key(start, token, each) for each in range(version - _KEPT, version)]
            with suppress(StoreUnavailable):  # one may be late: the next leader deletes it
                self._store.check_unanswered(SUBSCRIPTION, old)
                batch.delete_rows(SUBSCRIPTION, old)

    def delete(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add the deletion of the position to `batch`."""
        token = self.token_of(topic_prefix)
        if not token:
            super().delete(batch, topic_prefix, subscription)
            return
        version = subscription.version + 1
        key = _key(topic_prefix + subscription.name.encode(), token, version)
        batch.put(SUBSCRIPTION, key, _TOKEN.pack(version) + _DELETED)

    def token_of(self, topic_prefix: bytes) -> int:
        """Return the token to write under; 0 for plain rows."""
        return self._sealed.token or self._floors.get(topic_prefix, 0)

    def read(self, topic_id: TopicId, topic_prefix: bytes) -> Sequence[SubscriptionPosition]:
        """Return the positions of a topic's generation; seal them if necessary.

        They are in the order of their names.
        """
        positions, token = self._read_rows(topic_prefix), self._sealed.token
        if positions.floor < token:
            # A reader may change them from now on, so they must not be put again.
            with self._lock, repeatable():
                positions = self._read_rows(topic_prefix)
                if positions.floor < token:
                    self._seal(topic_prefix, positions)
        elif positions.floor > token > 0:
            raise StoreUnavailable(reason=_LATER, later_token=positions.floor)
        elif positions.floor > token:
            self._floors[topic_prefix] = positions.floor
        return [
            decoded(topic_id, _name(topic_prefix, each.key), each.value)
            for each in positions.counting
            if not _is_deleted(each)
        ]

    def _read_rows(self, topic_prefix: bytes) -> _Positions:
        with self._store.scan(SUBSCRIPTION, topic_prefix, after_prefix(topic_prefix)) as rows:
            return _counting(topic_prefix, rows)

    def _seal(self, topic_prefix: bytes, positions: _Positions) -> None:
        """Put the positions again under our token, then the floor: only these rows count now."""
        token = self._sealed.token
        living = [each for each in positions.counting if not _is_deleted(each)]
        again = [
            (_key(topic_prefix + _name(topic_prefix, each.key), token, each.version), each.value)
            for each in living
            if each.token < token
        ]
        if again:
            batch = self._store.batch()
            batch.put_rows(SUBSCRIPTION, again)
            self._store.write(batch)
        batch = self._store.batch()
        batch.put(SUBSCRIPTION, topic_prefix + _KIND, _TOKEN.pack(token))
        self._store.write(batch)
        old = {*positions.others, *(each.key for each in positions.counting if each.token < token)}
        with suppress(StoreUnavailable):
            self._store.check_unanswered(SUBSCRIPTION, sorted(old))
            batch = self._store.batch(durable=False)
            batch.delete_rows(SUBSCRIPTION, sorted(old))
            self._store.write(batch)

    def scan(self, *, limit: int) -> Sequence[StoredPosition]:
        """Return the first `limit` positions of all topics, by topic, generation and name."""
        with self._store.scan(SUBSCRIPTION, b"", b"\xff") as rows:
            return list(islice(_stored(rows), limit))


def row_of_position(topic_prefix: bytes, key: bytes) -> dict[str, Any]:
    """Return the fields of a row's key, for inspection. Raises `StoreCorrupt`."""
    if key == topic_prefix + _KIND:
        return {"floor": True}
    name = {"subscription": _name(topic_prefix, key).decode(errors="replace")}
    if _KIND not in key[len(topic_prefix) :]:
        return name
    each = _version(topic_prefix, key, b"")
    return name | {"token": each.token, "version": each.version}


def plain_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of the Subscription table as a lone server writes them."""
    for start, some in groupby(rows, key=lambda row: prefix_of(row[0])[2]):
        for each in _counting(start, some).counting:
            if not _is_deleted(each):
                yield start + _name(start, each.key), each.value


def _stored(rows: Iterable[Row]) -> Iterator[StoredPosition]:
    for key, value in plain_rows(rows):
        topic_id, generation, start = prefix_of(key)
        yield StoredPosition(start, generation, decoded(topic_id, key[len(start) :], value))


def _counting(topic_prefix: bytes, rows: Iterable[Row]) -> _Positions:
    """Return the positions in the ascending rows of one topic. Raises `StoreCorrupt`."""
    floor = 0
    counting: dict[bytes, _Version] = {}
    others: list[bytes] = []
    for key, value in rows:
        if key == topic_prefix + _KIND:
            [floor] = _TOKEN.unpack(value)
            continue
        each = _version(topic_prefix, key, value)
        name = _name(topic_prefix, key)
        best = counting.get(name)
        if each.token < floor:
            others.append(key)
        elif best is None or best < each:
            others += [] if best is None else [best.key]
            counting[name] = each
        else:
            others.append(key)
    return _Positions(floor, list(counting.values()), others)


def _version(topic_prefix: bytes, key: bytes, value: bytes) -> _Version:
    name, kind, place = key[len(topic_prefix) :].partition(_KIND)
    if not kind:
        [version] = _TOKEN.unpack_from(value) if len(value) >= _TOKEN.size else [0]
        return _Version(0, version, key, value)
    if len(place) != _PLACE.size:
        raise StoreCorrupt(table=SUBSCRIPTION, name=name.hex(), key=key.hex())
    token, version = _PLACE.unpack(place)
    return _Version(token, version, key, value)


def _key(start: bytes, token: int, version: int) -> bytes:
    return start + _KIND + _PLACE.pack(token, version)


def _name(topic_prefix: bytes, key: bytes) -> bytes:
    return key[len(topic_prefix) :].partition(_KIND)[0]


def _is_deleted(each: _Version) -> bool:
    return each.value[_TOKEN.size :] == _DELETED


_LATER = "a later leader has the positions of the topic"
