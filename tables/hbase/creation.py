"""Creates the tables of a store in HBase; what is there already stays.

The gateway's first Thrift interface, which all else goes through, creates a table in one region;
only the second one takes keys to split it at. So with `admin`, the address of a gateway of the
second kind, each bucket has its region from the start. Without, HBase splits the tables when they
have grown, or an operator does (`Created.splits`). Compression is left to the operator too.

The table of a feature is created when that is first used (`HBaseStore.add_feature`), and here only
where it is recorded and missing.

What was created is recorded last: a creation that did not finish is no store, and is finished by
being asked for again. So it is with each shard of a store that has several, and then with the
store.
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
"""Is told how many shards are created, and of how many."""


@dataclass(frozen=True, slots=True)
class Created:
    """The tables that `create` found or made."""

    buckets: int
    tables: list[str]
    """The tables that were not there before, by HBase's names."""
    splits: dict[str, list[bytes]]
    """Where to split those of them that are in one region and should not be."""
    sharding: Sharding | None = None
    """None: the store has no shards."""

    @property
    def regions(self) -> int:
        """How many regions the store has once all of its tables are split, without groups."""
        each = sum(len(Salt(table, self.buckets).split_keys()) + 1 for table in TABLES)
        return each if self.sharding is None else each * self.sharding.shards + 1


def create_as_told(
    place: Place,
    gateway: Gateway,
    admin: tuple[str, int] | None,
    sharding: Sharding | None,
    on_shard: OnShard,
) -> Created:
    """Create what is missing of a store with so many shards; None: as it is there, else with one.

    Shards are created some at a time. Raises as `create`, and `StoreFormatUnknown` where there is
    a store with other shards, or with none.
    """
    row = recorded(place, gateway)
    found = recorded_shards(place, row)
    wanted = found if sharding is None else sharding
    if wanted is not None and wanted.shards == 1:
        wanted = None
    if row is not None and wanted != found:
        was = "without shards" if found is None else f"with {found}"
        reason = f"it was created {was}, which cannot be changed: give another prefix for a new one"
        raise StoreFormatUnknown(prefix=place.prefix, reason=reason)
    if wanted is None:
        return create(place, gateway, admin)
    shards = [OneShard(number, wanted) for number in range(wanted.shards)]
    places = [place.of_shard(shard.shard) for shard in shards]
    made: list[Created] = []
    with ThreadPoolExecutor(gateway.size, "tms-init") as threads:
        # Nothing is created where one of them could not be.
        list(threads.map(_found, places, repeat(gateway), shards))
        for created in threads.map(
            lambda at, shard: create(at, gateway, admin, shard=shard), places, shards
        ):
            made.append(created)
            on_shard(len(made), wanted.shards)
    _record_shards(place, gateway, format_row(made[0].buckets, shard=wanted))
    tables = [table for each in made for table in each.tables]
    splits = {table: keys for each in made for table, keys in each.splits.items()}
    return Created(made[0].buckets, tables, splits, wanted)


def create(
    place: Place,
    gateway: Gateway,
    admin: tuple[str, int] | None = None,
    *,
    shard: OneShard | None = None,
) -> Created:
    """Create the tables that are missing, and record the number of buckets.

    `admin` is host and port of a gateway of Thrift's second interface. They are those of a `shard`
    if that is given. Raises `StoreFormatUnknown` where there is a store with another number of
    buckets, or another shard; `StoreSharded` where it is not to be one; `StoreUnavailable`.
    """
    found = _found(place, gateway, shard)
    default = BUCKETS_DEFAULT if shard is None else _SHARD_BUCKETS_DEFAULT
    buckets = place.buckets or default if found is None else found.buckets
    tables = TABLES if found is None else tables_with(found.features)
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
        if found is None:
            _record(place, gateway, format_row(buckets, shard=shard))
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(gateway=gateway.address, reason=str(failure)) from None
    return Created(buckets, made, splits)


def _found(place: Place, gateway: Gateway, shard: OneShard | None) -> Recorded | None:
    """Return what is recorded there; None if nothing is. Raises as `create`."""
    row = recorded(place, gateway)
    found = recorded_format(place, row) if row else None
    if found is not None and found.shard != shard:
        if shard is None:
            raise StoreSharded(prefix=place.prefix, **keys_of(found.shard))
        was = "a whole store" if found.shard is None else found.shard
        reason = f"tables of {was} exist already: give another prefix"
        raise StoreFormatUnknown(prefix=place.prefix, reason=reason)
    return found


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
        said = str(getattr(error, "message", None) or error or type(error).__name__)
        raise StoreUnavailable(
            admin=f"{host}:{port}", table=name.decode(), reason=said.partition("\n")[0]
        ) from None


def _record_shards(place: Place, gateway: Gateway, row: bytes) -> None:
    """Record that all shards are there, in a table that has nothing else."""
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
