"""Creates the tables of a store in HBase; what is there already stays.

The gateway's first Thrift interface, which all else goes through, creates a table in one region;
only the second one takes keys to split it at. So with `admin`, the address of a gateway of the
second kind, each bucket has its region from the start. Without, HBase splits the tables when they
have grown, or an operator does (`Created.splits`). Compression is left to the operator too.

The table of a feature is created when that is first used (`HBaseStore.add_feature`), and here only
where it is recorded and missing.

What was created is recorded last: a creation that did not finish is no store, and is finished by
being asked for again.
"""

import ssl
from dataclasses import dataclass
from functools import partial
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
    Salt,
    format_row,
    recorded_format,
)
from tables.store import METADATA, TABLES, tables_with
from tms.core.errors import StoreUnavailable

_ADMIN = thriftpy2.load(
    str(Path(__file__).with_name("admin.thrift")), module_name="hbase_admin_thrift"
)
_ADMIN_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Created:
    """The tables that `create` found or made."""

    buckets: int
    tables: list[str]
    """The tables that were not there before, by HBase's names."""
    splits: dict[str, list[bytes]]
    """Where to split those of them that are in one region and should not be."""


def create(place: Place, gateway: Gateway, admin: tuple[str, int] | None = None) -> Created:
    """Create the tables that are missing, and record the number of buckets.

    `admin` is host and port of a gateway of Thrift's second interface. Raises `StoreFormatUnknown`
    where there is a store with another number of buckets, `StoreUnavailable`.
    """
    row = recorded(place, gateway)
    found = recorded_format(place, row) if row else None
    buckets = place.buckets or BUCKETS_DEFAULT if found is None else found.buckets
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
        if row is None:
            _record(place, gateway, buckets)
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(gateway=gateway.address, reason=str(failure)) from None
    return Created(buckets, made, splits)


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


def _record(place: Place, gateway: Gateway, buckets: int) -> None:
    """Record the number of buckets, if nobody else has meanwhile. Raises `StoreFormatUnknown`."""
    name, value = place.name_of(METADATA), format_row(buckets)
    mutation = Mutation(False, COLUMN, value, True)
    gateway.repeated(
        lambda client: client.checkAndPut(name, FORMAT_KEY, COLUMN, None, mutation, {})
    )
    recorded_format(Place(place.host, place.port, place.prefix, buckets), recorded(place, gateway))
