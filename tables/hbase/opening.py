"""A store by its URL: opened, or created. All of `tables.hbase` that others need."""

from tms.core import extras

try:
    import happybase  # noqa: F401  asked for here so that whoever has not installed it is told how
except ModuleNotFoundError as error:
    raise extras.missing("a store on HBase needs happybase", error, "server", "hbase") from None

from collections.abc import Callable
from typing import Any

from tables.hbase.connections import Gateway
from tables.hbase.creation import Created, create
from tables.hbase.layout import FORMAT_KEY, parse
from tables.hbase.sending import value_of
from tables.hbase.store import HBaseStore
from tables.store import METADATA


def open_store(
    url: str,
    *,
    takes_over: bool = False,
    token: int = 0,
    is_last: Callable[[], bool] = lambda: True,
    **options: Any,
) -> HBaseStore:
    """Open the store at `url` (`layout.parse`) with the options of `Gateway`.

    A server `takes_over` (`HBaseStore.take_over`), under the `token` of its lease; others look, or
    write what may be there in part. One without a lease is alone, so it raises a store of an older
    format; in a cluster other servers may know no later one. Raises `StoreFormatUnknown` where none
    was created there, `StoreLocked` where it is a cluster's, `StoreUnavailable`, `StoreCorrupt`,
    ValueError.
    """
    place = parse(url)
    store = HBaseStore(place, Gateway(place.host, place.port, **options))
    if takes_over:
        try:
            store.take_over(token=token, is_last=is_last)
            if not token:
                store.raise_format()
        except BaseException:
            store.close()
            raise
    return store


def look_at(url: str, **options: Any) -> Callable[[], object]:
    """Return a call that finds out whether HBase answers through the gateway of `url`.

    It takes the options of `Gateway`, and reads one row of the store, once. It blocks, for as long
    as a call may, and raises `StoreUnavailable`. Raises ValueError for another URL.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **{**options, "size": 1, "retry_s": 0.0})
    name = place.name_of(METADATA)
    return lambda: gateway.read(lambda client: value_of(client, name, FORMAT_KEY))


def release_store(url: str, **options: Any) -> bool:
    """Have a store be no cluster's any more (`HBaseStore.release`). Raises as `open_store`."""
    store = open_store(url, **options)
    try:
        return store.release()
    finally:
        store.close()


def create_store(url: str, admin: tuple[str, int] | None, **options: Any) -> Created:
    """Create the store at `url`, as far as it is missing. Raises as `create`, and ValueError."""
    place = parse(url)
    gateway = Gateway(place.host, place.port, **options)
    try:
        return create(place, gateway, admin)
    finally:
        gateway.close_idle()
