"""A store by its URL: opened, or created. All of `tables.hbase` that others need."""

from tms.core.runtime import extras

try:
    import happybase  # noqa: F401  asked for here so that whoever has not installed it is told how
except ModuleNotFoundError as error:
    raise extras.missing("a store on HBase needs happybase", error, "server", "hbase") from None

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from tables.hbase import format_row
from tables.hbase.connections import Gateway
from tables.hbase.creation import Created, OnShard, create_as_told
from tables.hbase.layout import FORMAT_KEY, Place, parse, recorded_format, recorded_shards
from tables.hbase.pool import ConnectionPool
from tables.hbase.sending import value_of
from tables.hbase.store import HBaseStore
from tables.store import METADATA
from tables.store_format import keys_of
from tms.core.errors import StoreFormatUnknown, StoreSharded
from tms.core.limits import INT64_MAX
from tms.core.text.store_url import url_of_shard
from tms.core.values.shards import OneShard, Sharding

ANY_SHARD: Final = "any"
ExpectedShard: TypeAlias = OneShard | Literal["any"] | None
"""The shard that is to be opened; `ANY_SHARD`: a whole store, or any; None: a whole store."""


def open_store(
    url: str,
    *,
    shard: ExpectedShard = None,
    takes_over: bool = False,
    token: int = 0,
    is_last: Callable[[], bool] = lambda: True,
    on_fenced: Callable[[], object] = lambda: None,
    **options: Any,
) -> HBaseStore:
    """Open the store at `url` (`layout.parse`) with the options of `Gateway`.

    A server `takes_over` (`HBaseStore.take_over`), under the `token` of its lease; others look, or
    write what may be there in part. One without a lease is alone, so it raises a store of an older
    format; in a cluster other servers may know no later one. Raises `StoreFormatUnknown` where none
    was created there, or it is another `shard`; `StoreSharded` where that is not to be one;
    `StoreLocked` where it is a cluster's, `StoreUnavailable`, `StoreCorrupt`, ValueError.
    """
    place = parse(url)
    store = HBaseStore(place, Gateway(place.host, place.port, **options))
    try:
        if shard != ANY_SHARD:
            _check_shard(place, store.shard, shard)
        if takes_over:
            store.take_over(token=token, is_last=is_last, on_fenced=on_fenced)
            if not token:
                store.raise_format()
    except BaseException:
        store.close()
        raise
    return store


def _check_shard(place: Place, found: OneShard | None, expected: OneShard | None) -> None:
    if found == expected:
        return
    if expected is None:
        raise StoreSharded(prefix=place.prefix, **keys_of(found))
    said = "a whole store" if found is None else found
    reason = f"its tables are of {said}, not of {expected}, which the store's own row names"
    raise StoreFormatUnknown(prefix=place.prefix, reason=reason)


def pool_of(url: str, **options: Any) -> ConnectionPool:
    """Return a pool of connections to the gateway of `url`, with its options. Raises ValueError."""
    place = parse(url)
    return ConnectionPool(place.host, place.port, **options)


def sharding_of(url: str, **options: Any) -> Sharding | None:
    """Return how the store at `url` is divided; None if it has no shards.

    Takes the options of `Gateway`. Raises `StoreUnavailable`, ValueError, and `StoreFormatUnknown`,
    also if it is not there.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **{**options, "size": 1})
    try:
        row = format_row.recorded(place, gateway)
        if row is None:
            recorded_format(place, row)  # says what to do
        return recorded_shards(place, row)
    finally:
        gateway.close()


def look_at(url: str, **options: Any) -> Callable[[], object]:
    """Return a call that finds out whether HBase answers through the gateway of `url`.

    It takes the options of `Gateway`, and reads one row of the store, once. It blocks, for as long
    as a call may, and raises `StoreUnavailable`. Raises ValueError for another URL.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **{**options, "size": 1, "retry_s": 0.0})
    name = place.name_of(METADATA)
    return lambda: gateway.read(lambda client: value_of(client, name, FORMAT_KEY))


def shards_within(url: str, **options: Any) -> list[str]:
    """Return the URLs of a store's shards; its own if it is a whole store, or a shard.

    Takes the options of `Gateway`. Raises as `sharding_of`.
    """
    sharding = sharding_of(url, **options)
    if sharding is None:
        return [url]
    return [url_of_shard(url, shard) for shard in range(sharding.shards)]


def release_store(url: str, **options: Any) -> bool:
    """Have a store be no cluster's any more (`HBaseStore.release`). Raises as `open_store`."""
    return True in [release_shard(each, **options) for each in shards_within(url, **options)]


def release_shard(url: str, through: int = INT64_MAX, **options: Any) -> bool:
    """Do that for a store that has no shards, or one shard, and leaders up to a token."""
    store = open_store(url, shard=ANY_SHARD, **options)
    try:
        return store.release(through)
    finally:
        store.close()


def create_store(
    url: str,
    admin: tuple[str, int] | None,
    sharding: Sharding | None = None,
    on_shard: OnShard = lambda _done, _all: None,
    **options: Any,
) -> Created:
    """Create the store at `url`, as far as it is missing.

    Raises as `create_as_told`, and ValueError.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **options)
    try:
        return create_as_told(place, gateway, admin, sharding, on_shard)
    finally:
        gateway.close()
