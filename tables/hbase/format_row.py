"""The format row of a store: reads it, raises it, and records features in it.

The table of a feature is created before the feature is recorded, so a recorded feature has its
table.
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
        """Return the format row, as bytes and decoded."""
        ...

    def swap(self, swap: Swap) -> bool:
        """Put a value if the row is as expected; return whether it was."""
        ...


def recorded(place: Place, gateway: Gateway) -> bytes | None:
    """Return the format row of the store at `place`, None if there is none."""
    name = place.name_of(METADATA)

    def read(client: Any) -> bytes | None:
        return value_of(client, name, FORMAT_KEY) if name in client.getTableNames() else None

    return gateway.read(read)


def put_raised(store: FormatStore) -> None:
    """Record the present format, unless it is recorded. Nobody may write in the meantime."""
    row, format_ = store.recorded()
    if not format_.is_raised:
        store.swap(Swap(METADATA, FORMAT_KEY, row, format_row(format_.buckets)))
        store.recorded()


def put_feature(store: FormatStore, feature: str) -> None:
    """Record a feature, unless it is recorded. Nobody may write in the meantime."""
    row, format_ = store.recorded()
    if feature not in format_.features:
        new = format_row(format_.buckets, format_.features | {feature}, format_.shard)
        store.swap(Swap(METADATA, FORMAT_KEY, row, new))


def make_table(gateway: Gateway, name: bytes, salt: Salt) -> None:
    """Create a table in one region, unless it exists. Raises `StoreUnavailable`."""
    try:
        if name in gateway.read(lambda client: client.getTableNames()):
            return
        gateway.repeated(partial(create_whole, name))
    except (CallFailed, Refused) as failure:
        raise StoreUnavailable(table=name.decode(), reason=str(failure)) from None
    if splits := salt.split_keys():
        keys = ", ".join(split.hex() for split in splits)
        _log.info("the table %s was created with one region; split it at %s", name.decode(), keys)


def create_whole(name: bytes, client: Any) -> None:
    """Create a table through a Thrift client, unless it exists."""
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
