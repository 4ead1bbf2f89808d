"""Creates the tables of a store in HBase; existing tables stay.

The gateway's first Thrift interface, which carries all other calls, creates a table in one region;
only the second one accepts split keys. With `admin`, the address of a gateway of the second kind,
each bucket has its region from the start. Without it, HBase splits the tables when they have grown,
or an operator does (`Created.splits`). Compression is left to the operator too.

The table of a feature is created when the feature is first used (`HBaseStore.add_feature`), and
here only if it is recorded and missing.

The format is recorded last: an unfinished creation is not a store yet, and creating it again
finishes it. In a store with several shards this is done for each shard, and then for the store.
"""

import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path

import thriftpy2
from Hbase_thrift import Mutation
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TException

from tables.hbase.connections import CallFailed, Gateway, Refused
from tables.hbase.format_row import create_whole, recorded
from tables.hbase.layout import (
    BUCKETS_DEFAULT,
    COLUMN,
    FAMILY,
    FORMAT_KEY,
    Place,
    Recorded,
    Salt,
    format_row,
    recorded_format,
    recorded_shards,
)
from tables.store import METADATA, TABLES, tables_with
from tables.store_format import keys_of
from tms.core.errors import StoreFormatUnknown, StoreSharded, StoreUnavailable
from tms.core.values.shards import OneShard, Sharding

_ADMIN = thriftpy2.load(
    str(Path(__file__).with_name("admin.thrift")), module_name="hbase_admin_thrift"
)
_ADMIN_TIMEOUT_MS = 120_000
_SHARD_BUCKETS_DEFAULT = 1

OnShard = Callable[[int, int], object]
"""Called with the number of shards created so far, and of all."""


@dataclass(frozen=True, slots=True)
class Created:
    """The result of `create`: the store's tables."""

    buckets: int
    tables: list[str]
    """The tables that did not exist before, by HBase's names."""
    splits: dict[str, list[bytes]]
    """The keys at which to split those that are in one region and should not be."""
    sharding: Sharding | None = None
    """None if the store has no shards."""

    @property
    def regions(self) -> int:
        """The number of regions once all tables are split, without groups."""
        each = sum(len(Salt(table, self.buckets).split_keys()) + 1 for table in TABLES)
        return each if self.sharding is None else each * self.sharding.shards + 1


def create_store_or_shards(
    place: Place,
    gateway: Gateway,
    admin: tuple[str, int] | None,
    sharding: Sharding | None,
    on_shard: OnShard,
) -> Created:
    """Create the missing parts of a store; by default with the shards it has, or with one.

    Several shards are created at a time. Raises as `create`, and `StoreFormatUnknown` if a store
    with other shards exists there.
    """
    row = recorded(place, gateway)
    existing = recorded_shards(place, row)
    requested = existing if sharding is None else sharding
    if requested is not None and requested.shards == 1:
        requested = None
    if row is not None and requested != existing:
        was = "without shards" if existing is None else f"with {existing}"
        reason = f"it was created {was}, which cannot be changed: give another prefix for a new one"
        raise StoreFormatUnknown(prefix=place.prefix, reason=reason)
    if requested is None:
        return create(place, gateway, admin)
    shards = [OneShard(number, requested) for number in range(requested.shards)]
    places = [place.of_shard(shard.shard) for shard in shards]
    made: list[Created] = []
    with ThreadPoolExecutor(gateway.size, "tms-init") as threads:
        # Nothing is created if one of them could not be.
        list(threads.map(_existing, places, repeat(gateway), shards))
        for created in threads.map(
            lambda at, shard: create(at, gateway, admin, shard=shard), places, shards
        ):
            made.append(created)
            on_shard(len(made), requested.shards)
    _record_shards(place, gateway, format_row(made[0].buckets, shard=requested))
    tables = [table for each in made for table in each.tables]
    splits = {table: keys for each in made for table, keys in each.splits.items()}
    return Created(made[0].buckets, tables, splits, requested)


def create(
    place: Place,
    gateway: Gateway,
    admin: tuple[str, int] | None = None,
    *,
    shard: OneShard | None = None,
) -> Created:
    """Create the tables that are missing, and record the number of buckets.

    `admin` is host and port of a gateway of Thrift's second interface. With `shard`, the tables are
    those of that shard. Raises `StoreFormatUnknown` if a store with another number of buckets, or
    another shard, exists there; `StoreSharded` if a store with shards does and none is expected;
    `StoreUnavailable`.
    """
    existing = _existing(place, gateway, shard)
    default = BUCKETS_DEFAULT if shard is None else _SHARD_BUCKETS_DEFAULT
    buckets = place.buckets or default if existing is None else existing.buckets
    tables = TABLES if existing is None else tables_with(existing.features)
    try:
        there = set(gateway.repeated(lambda client: client.getTableNames()))
        made, splits = [], {}
        for table in tables:
            name = place.name_of(table)
            if name in there:
                continue
            keys = Salt(table, buckets).split_keys()
            if admin is not None:
                _create_split(admin, gateway.tls, name, keys)
            else:
                gateway.once(partial(create_whole, name))
                if keys:
                    splits[name.decode()] = keys
            made.append(name.decode())
        if existing is None:
            _record(place, gateway, format_row(buckets, shard=shard))
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(gateway=gateway.address, reason=str(failure)) from None
    return Created(buckets, made, splits)


def _existing(place: Place, gateway: Gateway, shard: OneShard | None) -> Recorded | None:
    """Return the format recorded there; None if there is none. Raises as `create`."""
    row = recorded(place, gateway)
    existing = recorded_format(place, row) if row else None
    if existing is not None and existing.shard != shard:
        if shard is None:
            raise StoreSharded(prefix=place.prefix, **keys_of(existing.shard))
        was = "a whole store" if existing.shard is None else existing.shard
        reason = f"tables of {was} exist already: give another prefix"
        raise StoreFormatUnknown(prefix=place.prefix, reason=reason)
    return existing


def _create_split(
    admin: tuple[str, int], tls: ssl.SSLContext | None, name: bytes, keys: list[bytes]
) -> None:
    namespace, _, qualifier = name.rpartition(b":")
    attributes = {b"VERSIONS": b"1", b"BLOOMFILTER": b"ROW", b"BLOCKCACHE": b"true"}
    table = _ADMIN.TTableDescriptor(
        tableName=_ADMIN.TTableName(ns=namespace or None, qualifier=qualifier),
        columns=[_ADMIN.TColumnFamilyDescriptor(name=FAMILY.encode(), attributes=attributes)],
    )
    host, port = admin
    try:
        client = make_client(
            _ADMIN.THBaseService, host, port, timeout=_ADMIN_TIMEOUT_MS, ssl_context=tls
        )
        try:
            client.createTable(table, keys or None)
        finally:
            client.close()
    except (TException, OSError, EOFError, AssertionError) as error:
        message = str(getattr(error, "message", None) or error or type(error).__name__)
        raise StoreUnavailable(
            admin=f"{host}:{port}", table=name.decode(), reason=message.partition("\n")[0]
        ) from None


def _record_shards(place: Place, gateway: Gateway, row: bytes) -> None:
    """Record that all shards exist, in a table that holds nothing else."""
    try:
        if recorded(place, gateway) is None:
            gateway.repeated(partial(create_whole, place.name_of(METADATA)))
            _record(place, gateway, row)
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(gateway=gateway.address, reason=str(failure)) from None


def _record(place: Place, gateway: Gateway, value: bytes) -> None:
    """Record a format, if nobody else has recorded one. Raises `StoreFormatUnknown`."""
    name, mutation = place.name_of(METADATA), Mutation(False, COLUMN, value, True)
    gateway.repeated(
        lambda client: client.checkAndPut(name, FORMAT_KEY, COLUMN, None, mutation, {})
    )
    if recorded(place, gateway) != value:
        reason = "another process has created a store there in the meantime"
        raise StoreFormatUnknown(prefix=place.prefix, reason=reason)
