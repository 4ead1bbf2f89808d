"""Opens the stores that URLs name: for messages, for metadata, for inspection, for creation.

The packages `tables`, `cleanup` and `api` are at the top of the source tree; a wheel has them in
`tms/_server/` instead, because `tables` is also PyTables' name. So their folder is on the path only
while they are imported, `api` only by a serving process, and another package of that name that was
imported before is refused.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tms.core.runtime.clock import SystemClock
from tms.core.runtime.held_lease import HeldLease
from tms.core.text.credentials import without_credentials
from tms.core.text.store_url import (
    HBASE,
    LEVELDB,
    MEMORY,
    StoreKind,
    folder_of,
    has_scheme,
    kind_of,
    written,
)
from tms.core.values.shards import Sharding
from tms.core.values.store_access import StoreAccess
from tms.metadata.interface import MetadataStore
from tms.metadata.opening import Folder, open_store
from tms.settings import Settings

_HERE = Path(__file__).resolve().parents[1]
_INSTALLED = _HERE / "_server"
_SERVER = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent


@contextmanager
def importing(package: str) -> Iterator[None]:
    """Let `package` be imported only from the folder of the server's packages."""
    imported = sys.modules.get(package)
    if imported is not None and str(_SERVER / package) not in imported.__path__:
        raise ImportError(
            f"another package named {package} is imported already: use TMS's server in a process "
            "without it, and a client of it here"
        )
    sys.path.insert(0, str(_SERVER))
    try:
        yield
    finally:
        sys.path.remove(str(_SERVER))


with importing("tables"), importing("cleanup"):
    from cleanup.inspection_service import Partwise
    from tables.coordination_rows import CoordinationRows
    from tables.leveldb import LevelDBStore
    from tables.memory import MemoryStore
    from tables.room import keep_reserve as keep_reserve_in
    from tables.sealing.store import SealedStore
    from tables.sealing.tables import SealedTables
    from tables.store_tables import StoreTables

    if TYPE_CHECKING:
        from tables.hbase.opening import ExpectedShard
        from tables.hbase.pool import ConnectionPool


def keep_reserve(store: str, size: int) -> None:
    """Keep a file, in a store's folder, that an operator can delete when the disk is full."""
    folder = folder_of(store)
    if folder is not None:
        keep_reserve_in(folder, size)


def open_tables(
    store: str,
    settings: Settings,
    access: StoreAccess = StoreAccess.CREATE,
    *,
    takes_over: bool = False,
    lease: HeldLease | None = None,
    shard: "ExpectedShard" = None,
    pool: "ConnectionPool | None" = None,
) -> StoreTables:
    """Open the store that `store` names: `leveldb:DIR`, `hbase://HOST:PORT/PREFIX`, or `memory:`.

    A folder is opened as `access` says. HBase's tables are never created here, and only a server
    raises their format. A server `takes_over`, also from one that died; no call goes to HBase after
    its `lease` is over. One of several shards is opened only if it is the expected `shard`; `pool`
    has the connections to HBase. Blocks while LevelDB recovers, HBase answers, or, in a takeover
    there, a dead server's calls may be in progress. Raises `StoreError`, `StoreUnavailable`,
    ValueError for another URL, and ModuleNotFoundError if a package for HBase is not installed.
    """
    kind = kind_of(store)
    if kind is None and not has_scheme(store, HBASE):  # its own error says what is missing
        shown = without_credentials(store)
        raise ValueError(f"{shown!r} is not a store: give {written()}")
    request = StoreRequest(store, settings, access, lease, takes_over, shard, pool)
    return WAYS[HBASE if kind is None else kind](request)


class StoreRequest(NamedTuple):
    """The request to open a store."""

    store: str
    settings: Settings
    access: StoreAccess
    lease: HeldLease | None
    takes_over: bool
    shard: "ExpectedShard"
    pool: "ConnectionPool | None"


def _open_leveldb(request: StoreRequest) -> StoreTables:
    folder, settings = folder_of(request.store), request.settings
    assert folder is not None
    return StoreTables(
        LevelDBStore(
            folder,
            request.access,
            sync=settings.sync,
            write_buffer_bytes=settings.leveldb_write_buffer_bytes,
            block_cache_bytes=settings.leveldb_block_cache_bytes,
        )
    )


def _open_hbase(request: StoreRequest) -> StoreTables:
    from tables.hbase.opening import open_store  # noqa: PLC0415  an extra

    lease = request.lease
    options = hbase_options(request.settings, lease, request.pool)
    token = 0 if lease is None else lease.token
    opened = open_store(
        request.store,
        shard=request.shard,
        takes_over=request.takes_over,
        token=token,
        is_last=lambda: lease is None or lease.is_last,
        on_fenced=lambda: None if lease is None else lease.lose(),
        **options,
    )
    return SealedTables(SealedStore(opened, lease))


def _open_memory(_: StoreRequest) -> StoreTables:
    return StoreTables(MemoryStore())


WAYS: dict[StoreKind, Callable[[StoreRequest], StoreTables]] = {
    LEVELDB: _open_leveldb,
    HBASE: _open_hbase,
    MEMORY: _open_memory,
}
"""The functions that open stores of each kind."""


async def open_metadata(
    url: str,
    settings: Settings | None = None,
    tables: StoreTables | None = None,
    access: StoreAccess = StoreAccess.CREATE,
) -> MetadataStore:
    """Return a new session with the metadata store at `url` (`tms.metadata.opening`).

    A folder is opened as `access` says. Pass the `tables` of a server in this process that has the
    folder open: the rows are kept there, and it stays open. Raises ValueError for another URL,
    `StoreError`, and `StoreUnavailable` or `MetadataUnavailable` where it is not reached.
    """

    def open_folder(path: Path) -> Folder:
        if tables is not None:
            return Folder(CoordinationRows(tables.store), lambda: None)
        options = settings or Settings.model_construct()
        store = open_tables(f"leveldb:{path}", options, access).store
        return Folder(CoordinationRows(store), store.close)

    return await open_store(url, open_folder)


def inspect(store: str) -> Partwise:
    """Open a store, or one shard, for inspection; close the result.

    Raises as `open_tables` does.
    """
    settings = Settings.model_construct()
    opened = open_tables(store, settings, StoreAccess.READ, shard="any").store
    return Partwise(opened, settings.limits(), SystemClock())


def sharding_of(store: str, settings: Settings) -> Sharding | None:
    """Return how `store` is divided; None if it has no shards.

    Raises as `open_tables` does, and on HBase also if there is none.
    """
    if not has_scheme(store, HBASE):
        return None
    from tables.hbase.opening import sharding_of as recorded  # noqa: PLC0415  an extra

    return recorded(store, **hbase_options(settings))


def create_tables(
    store: str,
    settings: Settings,
    admin: tuple[str, int] | None,
    sharding: Sharding | None = None,
    on_shard: Callable[[int, int], object] = lambda _done, _all: None,
) -> Any:
    """Create the tables of `store`, `hbase://…` (`hbase.creation.create_store_or_shards`).

    Raises as that and `open_tables` do.
    """
    from tables.hbase.opening import create_store  # noqa: PLC0415  as above

    return create_store(store, admin, sharding, on_shard, **hbase_options(settings))


def release_store(store: str, settings: Settings) -> bool:
    """Release `store`, `hbase://…`, from its cluster; return whether it had one.

    Raises as `open_tables` does.
    """
    from tables.hbase.opening import release_store  # noqa: PLC0415  as above

    return release_store(store, **hbase_options(settings))


def free_shard(store: str, settings: Settings, token: int) -> bool:
    """Release one shard, `hbase://…`, unless a leader with a later token has it.

    Raises as `open_tables` does.
    """
    from tables.hbase.opening import release_shard  # noqa: PLC0415  as above

    return release_shard(store, token, **hbase_options(settings))


def look_at(store: str, settings: Settings, timeout_s: float) -> Callable[[], object]:
    """Return a function that checks whether `store`, `hbase://…`, is reached.

    See `tables.hbase.opening.look_at`; it waits `timeout_s` seconds for an answer.
    """
    from tables.hbase.opening import look_at  # noqa: PLC0415  as above

    return look_at(store, **hbase_options(settings) | {"timeout_s": timeout_s})


def hbase_pool(store: str, settings: Settings) -> "ConnectionPool":
    """Return the connections that the shards of `store`, `hbase://…`, share in this process.

    Each shard always has two, and its cleanup one; all shards share `hbase_connections` more.
    Raises ValueError, and `OSError` for TLS's files.
    """
    from tables.hbase.opening import pool_of  # noqa: PLC0415  as above

    timeout_s, spare = settings.hbase_timeout_s, settings.hbase_connections
    return pool_of(store, spare=spare, timeout_s=timeout_s, **_connection_options(settings))


def hbase_options(
    settings: Settings, lease: HeldLease | None = None, pool: "ConnectionPool | None" = None
) -> dict[str, Any]:
    """Return the options of `tables.hbase.opening.open_store`. Raises `OSError` for TLS's files."""
    return {
        "size": settings.hbase_connections,
        "timeout_s": settings.hbase_timeout_s,
        "retry_s": settings.hbase_retry_s,
        **(_connection_options(settings) if pool is None else {"pool": pool}),
        **({} if lease is None else {"guard": lease.check}),
    }


def _connection_options(settings: Settings) -> dict[str, Any]:
    tls = None
    if settings.hbase_tls:
        from tables.hbase.tls import context  # noqa: PLC0415  an extra

        tls = context(settings.hbase_tls_ca or None, settings.hbase_tls_certificate or None)
    return {
        "transport": settings.hbase_transport,
        "protocol": settings.hbase_protocol,
        "tls": tls,
        "idle_s_max": settings.hbase_gateway_idle_s / 2,
    }
