"""The format row of a store: read, raised, and with the features that are used.

The table of a feature is made before the feature is recorded, so where it is recorded the table is
there.
"""

import logging
from functools import partial
from typing import Any, Protocol

from Hbase_thrift import AlreadyExists, ColumnDescriptor

from tables.hbase.connections import CallFailed, Gateway, Refused
from tables.hbase.layout import FAMILY, FORMAT_KEY, Place, Recorded, Salt, format_row
from tables.hbase.sending import Swap, value_of
from tables.store import METADATA
from tms.core.errors import StoreUnavailable

_FOREVER_S = 2**31 - 1

_log = logging.getLogger(__name__)


class FormatStore(Protocol):
    """A store that has a format row. All methods may fail as writes do."""

    def recorded(self) -> tuple[bytes, Recorded]:
        """Return the format row as HBase has it, and what it says."""
        ...

    def swap(self, swap: Swap) -> bool:
        """Put a value that is due; return whether it was."""
        ...


def recorded(place: Place, gateway: Gateway) -> bytes | None:
    """Return what is recorded of the store at `place`, None where there is none."""
    name = place.name_of(METADATA)

    def read(client: Any) -> bytes | None:
        return value_of(client, name, FORMAT_KEY) if name in client.getTableNames() else None

    return gateway.read(read)


def put_raised(store: FormatStore) -> None:
    """Record the present format, unless it is. Nobody may write meanwhile."""
    row, found = store.recorded()
    if not found.is_raised:
        store.swap(Swap(METADATA, FORMAT_KEY, row, format_row(found.buckets)))
        store.recorded()


def put_feature(store: FormatStore, feature: str) -> None:
    """Record a feature, unless it is. Nobody may write meanwhile."""
    row, found = store.recorded()
    if feature not in found.features:
        new = format_row(found.buckets, found.features | {feature}, found.shard)
        store.swap(Swap(METADATA, FORMAT_KEY, row, new))


def make_table(gateway: Gateway, name: bytes, salt: Salt) -> None:
    """Make a table in one region, unless it is there. Raises `StoreUnavailable`."""
    try:
        if name in gateway.read(lambda client: client.getTableNames()):
            return
        gateway.repeated(partial(create_whole, name))
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(table=name.decode(), reason=str(failure)) from None
    if splits := salt.split_keys():
        told = ", ".join(each.hex() for each in splits)
        _log.info("the table %s was created with one region; split it at %s", name.decode(), told)


def create_whole(name: bytes, client: Any) -> None:
    """Create a table of that name through a client of Thrift, unless it is there."""
    family = ColumnDescriptor(
        name=f"{FAMILY}:".encode(),
        maxVersions=1,
        compression="NONE",
        bloomFilterType="ROW",
        blockCacheEnabled=True,
        timeToLive=_FOREVER_S,
    )
    try:
        client.createTable(name, [family])
    except AlreadyExists:
        return
