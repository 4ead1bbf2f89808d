"""Where rows are in HBase: names of tables, salted keys, and the ranges that a scan covers.

    HBase table := prefix "_" table
    HBase row   := bucket uint8, key                  one cell, d:v, with the value
    format row  := 0xff "format"                      in the Metadata table, a JSON object
    table of a shard
                := prefix "." shard "_" table         of a store with several, whose own format row
                                                      is alone in `prefix "_metadata"`
    open rows   := 0xff "open" ...                    in the Transaction table: open_marks.py
    intent rows := 0xff "intent" ...                  in the Transaction table: intents.py

All rows of a topic are in one bucket, which the CRC-32 of its metadata row key selects; all of its
row keys begin with that key. So a poll is one scan. The Metadata and Transaction tables have one
bucket, 0. DO NOT CHANGE: stored.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

from tables.keys import topic_start
from tables.store import METADATA, TRANSACTION
from tables.store_format import features_of, keys_of, record, shards_in
from tms.core.errors import StoreFormatUnknown, StoreSharded
from tms.core.values.shards import OneShard, Sharding

COLUMN = b"d:v"
FAMILY = "d"
FORMAT_KEY = b"\xffformat"
FORMAT = 2
"""The format of the rows until a feature is used; then, and with shards, 3 (`tables.store_format`).
In format 1 some names of properties had no meaning: `tables.raising`."""
_FIRST_FORMAT = 1
BUCKETS_DEFAULT = 8
BUCKETS_MAX = 128
_UNSALTED = frozenset({METADATA, TRANSACTION})
_PORT_MAX = 65_535
_PREFIX = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*:)?[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a store: a Thrift gateway, and the prefix of the tables' names."""

    host: str
    port: int
    prefix: str
    buckets: int | None
    """From the URL; None if the URL leaves it to the recorded number."""

    def name_of(self, table: str) -> bytes:
        """Return the name that HBase has for a table."""
        return f"{self.prefix}_{table}".encode()

    def of_shard(self, shard: int) -> "Place":
        """Return the place of one of the shards of the store here."""
        return replace(self, prefix=f"{self.prefix}.{shard}")


def parse(url: str) -> Place:
    """Return the place that `hbase://HOST:PORT/PREFIX?buckets=N` names; PREFIX may be NS:PREFIX.

    Raises ValueError, which says what to give.
    """
    try:
        parts = urlsplit(url)
        options = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
        buckets = [int(number) for number in options.pop("buckets", [])]
        host, port, prefix = parts.hostname, parts.port, parts.path.removeprefix("/")
    except ValueError:
        host = port = None
    if (
        not host
        or not port
        or options
        or parts.scheme != "hbase"
        or not _PREFIX.fullmatch(prefix)
        or any(not 1 <= number <= BUCKETS_MAX for number in buckets)
    ):
        raise ValueError(
            f"give hbase://HOST:PORT/PREFIX, if needed with ?buckets=1 to {BUCKETS_MAX} at the end"
        )
    return Place(host, port, prefix, buckets[0] if buckets else None)


class Salt:
    """The bucket of each key of a table."""

    def __init__(self, table: str, buckets: int) -> None:
        self.buckets = 1 if table in _UNSALTED else buckets

    def of(self, key: bytes) -> bytes:
        """Return the byte that precedes `key` in HBase."""
        return bytes((crc32(topic_start(key)) % self.buckets,))

    def ranges(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Return HBase's ranges for start <= key < stop: one, if all its keys are of one topic."""
        if start >= stop:
            return []
        topic = topic_start(start)
        if self.buckets == 1 or (topic.count(b":") >= 2 and stop <= topic[:-1] + b";"):  # noqa: PLR2004
            salts = [self.of(start)]
        else:
            salts = [bytes((bucket,)) for bucket in range(self.buckets)]
        return [(salt + start, salt + stop) for salt in salts]

    def split_keys(self) -> list[bytes]:
        """Return where to split the table so that each bucket has a region."""
        return [bytes((bucket,)) for bucket in range(1, self.buckets)]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The format row of a store, taken apart."""

    buckets: int
    features: frozenset[str]
    is_raised: bool
    """Whether the format is the present one."""
    shard: OneShard | None = None
    """None if the store has no shards."""


def format_row(
    buckets: int, features: Collection[str] = (), shard: OneShard | Sharding | None = None
) -> bytes:
    """Return the format row of a store, of a shard, or of a whole store with shards.

    It always has the buckets: versions that do not know shards look for them first, and without
    them would report that there is no store.
    """
    others = {"buckets": buckets, **keys_of(shard)}
    return json.dumps(record(features, FORMAT, others)).encode()


def recorded_shards(place: Place, row: bytes | None) -> Sharding | None:
    """Return what `row` records if it is that of a store with several shards; else None.

    Raises `StoreFormatUnknown` if a later version wrote it.
    """
    sharding = _taken_apart(place, row)[1] if row else None
    return sharding if isinstance(sharding, Sharding) else None


def recorded_format(place: Place, row: bytes | None) -> Recorded:
    """Return what `row` records.

    Raises `StoreFormatUnknown` if there is none, it is not understood, or the URL has another
    number of buckets; `StoreSharded` if the row is that of a store with several shards.
    """
    recorded, shards, features = _taken_apart(place, row)
    if isinstance(shards, Sharding):
        raise StoreSharded(prefix=place.prefix, **keys_of(shards))
    buckets, number = recorded["buckets"], recorded["format"]
    if place.buckets not in (None, buckets):
        raise StoreFormatUnknown(
            prefix=place.prefix,
            reason=f"it was created with {buckets} buckets, which cannot be changed: give "
            f"?buckets={buckets} or none, or another prefix for a new store",
        )
    return Recorded(buckets, features, number >= FORMAT, shards)


def _taken_apart(
    place: Place, row: bytes | None
) -> tuple[dict[str, Any], Sharding | OneShard | None, frozenset[str]]:
    """Return a row's values, its sharding or shard, and its features."""
    try:
        recorded = json.loads(row or b"")
        number = recorded["format"]
        if type(number) is not int or not _FIRST_FORMAT <= number <= FORMAT + 1:
            raise StoreFormatUnknown(prefix=place.prefix, format=number, known=FORMAT + 1)
        shards = shards_in(recorded) if number > FORMAT else None
        recorded["buckets"] = int(recorded["buckets"])
        features = features_of(recorded, keys_of(shards).keys() | {"buckets"}, FORMAT)
    except (ValueError, TypeError, KeyError):
        raise StoreFormatUnknown(
            prefix=place.prefix, reason="there is no store; `tms init` creates one"
        ) from None
    return recorded, shards, features
