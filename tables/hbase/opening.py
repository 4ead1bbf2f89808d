"""Opens or creates a store by its URL. Other packages use only this of `tables.hbase`."""

from tms.core.runtime import extras

try:
    import happybase  # noqa: F401  imported here so that the error can say how to install it
except ModuleNotFoundError as error:
    raise extras.missing("a store on HBase needs happybase", error, "server", "hbase") from None

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from tables.hbase import format_row
from tables.hbase.connections import Gateway
from tables.hbase.creation import Created, OnShard, create_store_or_shards
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
"""The shard to open; `ANY_SHARD` means a whole store or any shard, None a whole store."""


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

    A server `takes_over` (`HBaseStore.take_over`), under the `token` of its lease; other callers
    only read, or write batches that may remain incomplete. A server without a lease is alone, so it
    raises a store of an older format; in a cluster other servers may not know the newer one. Raises
    `StoreFormatUnknown` if there is no store, or it is another `shard`; `StoreSharded` if no shard
    was expected; `StoreLocked` if a cluster uses it; `StoreUnavailable`, `StoreCorrupt`,
    ValueError.
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


def _check_shard(place: Place, recorded: OneShard | None, expected: OneShard | None) -> None:
    if recorded == expected:
        return
    if expected is None:
        raise StoreSharded(prefix=place.prefix, **keys_of(recorded))
    actual = "a whole store" if recorded is None else recorded
    reason = f"its tables are of {actual}, not of {expected}, which the store's own row names"
    raise StoreFormatUnknown(prefix=place.prefix, reason=reason)


def pool_of(url: str, **options: Any) -> ConnectionPool:
    """Return a pool of connections to the gateway of `url`. Raises ValueError."""
    place = parse(url)
    return ConnectionPool(place.host, place.port, **options)


def sharding_of(url: str, **options: Any) -> Sharding | None:
    """Return how the store at `url` is divided; None if it has no shards.

    Takes the options of `Gateway`. Raises `StoreUnavailable`, ValueError, and `StoreFormatUnknown`,
    also if there is no store.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **{**options, "size": 1})
    try:
        row = format_row.recorded(place, gateway)
        if row is None:
            recorded_format(place, row)  # the message says what to do
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
    """Return the URLs of a store's shards, or its own if it is a whole store or a shard.

    Takes the options of `Gateway`. Raises as `sharding_of` does.
    """
    sharding = sharding_of(url, **options)
    if sharding is None:
        return [url]
    return [url_of_shard(url, shard) for shard in range(sharding.shards)]


def release_store(url: str, **options: Any) -> bool:
    """Release a store from its cluster (`HBaseStore.release`). Raises as `open_store` does."""
    return True in [release_shard(each, **options) for each in shards_within(url, **options)]


def release_shard(url: str, through: int = INT64_MAX, **options: Any) -> bool:
    """Release a store without shards, or one shard, from the leaders up to a token."""
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
    """Create the missing parts of the store at `url`.

    Raises as `create_store_or_shards` does, and ValueError.
    """
    place = parse(url)
    gateway = Gateway(place.host, place.port, **options)
    try:
        return create_store_or_shards(place, gateway, admin, sharding, on_shard)
    finally:
        gateway.close()
