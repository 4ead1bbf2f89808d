"""Puts the parts together: a store, the service on it, and the REST server around that.

The one module that sees everything. The packages `tables` and `api` stand at the top of the source
tree; a wheel has them in `tms/_server/` instead, because `tables` is also PyTables' name. So the
folder they are in is on the path only while they are imported, `api` only by a process that serves,
and another package of the same name that was imported before is refused.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from prometheus_client import CollectorRegistry

from tms.configuration.namespaces import UndeclaredNamespaces
from tms.configuration.opening import DeclaredNamespaces, open_namespaces
from tms.core.clock import Clock, KeyTime, SystemClock
from tms.core.cluster import HeldLease
from tms.core.limits import Limits
from tms.core.tables import Tables
from tms.core.transactions import Transactions
from tms.messaging.engine import Engine
from tms.messaging.publications import Publications
from tms.messaging.ranges import RangeService
from tms.messaging.service import Service
from tms.messaging.subscriptions import SubscriptionService
from tms.metadata.interface import MetadataStore
from tms.metadata.opening import Folder, open_store
from tms.settings import Settings
from tms.transactions.elsewhere import TransactionsOfOthers
from tms.transactions.journal import Journal, Recover, SteadyTime
from tms.transactions.metrics import TransactionMetrics
from tms.transactions.recovery import Recovered
from tms.transactions.recovery import recover as recover_state
from tms.transactions.service import TransactionService
from tms.transactions.snapshots import Snapshots

T = TypeVar("T")

_HERE = Path(__file__).resolve().parent
_INSTALLED = _HERE / "_server"
_SERVER = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent


@contextmanager
def _importing(package: str) -> Iterator[None]:
    """Let `package` be imported from where the server's packages are, and from nowhere else."""
    found = sys.modules.get(package)
    if found is not None and str(_SERVER / package) not in found.__path__:
        raise ImportError(
            f"another package named {package} is imported already: use TMS's server in a process "
            "without it, and a client of it here"
        )
    sys.path.insert(0, str(_SERVER))
    try:
        yield
    finally:
        sys.path.remove(str(_SERVER))


with _importing("tables"), _importing("cleanup"):
    from cleanup.cleaner import Cleaner
    from cleanup.metrics import CleanupMetrics
    from cleanup.partwise import Partwise
    from cleanup.runner import Passes, Runner
    from cleanup.service import CleanupService
    from cleanup.services import LoopServices
    from tables.coordination_rows import CoordinationRows
    from tables.leveldb import LevelDBStore
    from tables.memory import MemoryStore
    from tables.sealed_store import SealedStore, SealedTables
    from tables.sealing import Sealing
    from tables.store import Store
    from tables.store_tables import StoreTables

_log = logging.getLogger(__name__)


def open_tables(
    store: str, settings: Settings, *, takes_over: bool = False, lease: HeldLease | None = None
) -> StoreTables:
    """Open the store that `store` names: `leveldb:DIR`, `hbase://HOST:PORT/PREFIX`, or `memory:`.

    A server `takes_over`, also from one that died; nothing is asked of HBase where its `lease` is
    over. Blocks while a LevelDB recovers, HBase is asked,
    or, taking over there, a dead server's calls may be under way. Raises `StoreError`,
    `StoreUnavailable`, ValueError for another URL, and ModuleNotFoundError where what HBase needs
    is not installed.
    """
    kind, _, place = store.partition(":")
    if kind == "memory" and not place:
        return StoreTables(MemoryStore())
    if kind == "leveldb" and place:
        return StoreTables(
            LevelDBStore(
                Path(place),
                sync=settings.sync,
                write_buffer_bytes=settings.leveldb_write_buffer_bytes,
                block_cache_bytes=settings.leveldb_block_cache_bytes,
            )
        )
    if kind == "hbase":
        from tables.hbase.opening import open_store  # noqa: PLC0415  an extra

        options = hbase_options(settings, lease)
        token = 0 if lease is None else lease.token
        opened = open_store(store, takes_over=takes_over, token=token, **options)
        return SealedTables(SealedStore(opened, lease))
    raise ValueError(
        f"no store at {store!r}: give leveldb:DIR, hbase://HOST:PORT/PREFIX or memory:"
    )


async def open_metadata(
    url: str, settings: Settings | None = None, tables: StoreTables | None = None
) -> MetadataStore:
    """Return a new session with the metadata store at `url` (`tms.metadata.opening`).

    Give the `tables` of a server in this process that has the folder open already: the rows are
    kept there, and it stays open. Raises ValueError for another URL, `StoreError`, and
    `StoreUnavailable` or `MetadataUnavailable` where it is not reached.
    """

    def open_folder(path: Path) -> Folder:
        if tables is not None:
            return Folder(CoordinationRows(tables.store), lambda: None)
        store = open_tables(f"leveldb:{path}", settings or Settings.model_construct()).store
        return Folder(CoordinationRows(store), store.close)

    return await open_store(url, open_folder)


def inspect(store: str) -> Partwise:
    """Open a store to look into it; close what is returned. Raises as `open_tables`."""
    settings = Settings.model_construct()
    return Partwise(open_tables(store, settings).store, settings.limits(), SystemClock())


def create_tables(store: str, settings: Settings, admin: tuple[str, int] | None) -> Any:
    """Create the tables of `store`, which is `hbase://…`: `tables.hbase.creation.create`.

    Raises as that and as `open_tables`.
    """
    from tables.hbase.opening import create_store  # noqa: PLC0415  as above

    return create_store(store, admin, **hbase_options(settings))


def hbase_options(settings: Settings, lease: HeldLease | None = None) -> dict[str, Any]:
    """Return the options of `tables.hbase.opening.open_store`. Raises `OSError` for TLS's files."""
    tls = None
    if settings.hbase_tls:
        from tables.hbase.tls import context  # noqa: PLC0415  an extra

        tls = context(settings.hbase_tls_ca or None, settings.hbase_tls_certificate or None)
    return {
        "size": settings.hbase_connections,
        "timeout_s": settings.hbase_timeout_s,
        "retry_s": settings.hbase_retry_s,
        "transport": settings.hbase_transport,
        "protocol": settings.hbase_protocol,
        "tls": tls,
        "idle_s_max": settings.hbase_gateway_idle_s / 2,
        **({} if lease is None else {"guard": lease.check}),
    }


@dataclass(frozen=True, slots=True)
class OpenServices:
    """All services on one store (`tms.core.services.ServerServices`)."""

    messaging: Service
    transactions: Transactions
    subscriptions: SubscriptionService
    namespaces: DeclaredNamespaces
    _engine: Engine
    cleanup: CleanupService | None = None
    """None where nobody asked for it."""
    inspection: Partwise | None = None
    """As above."""
    sealing: Sealing | None = None
    """None where this server leads no others."""

    @property
    def own_transactions(self) -> TransactionService | None:
        """The transactions that are managed here; None where they are managed elsewhere."""
        return self.transactions if isinstance(self.transactions, TransactionService) else None

    async def snapshot(self) -> bytes | None:
        """Return the state of transactions; None where they are managed elsewhere."""
        own = self.own_transactions
        return None if own is None else await own.snapshot()

    @property
    def ranges(self) -> RangeService:
        """What there is of topics, in parts."""
        return self.messaging.ranges

    async def close(self) -> None:
        """Write what is queued, refuse what comes after, and close the store.

        Also where the caller is cancelled: otherwise it would be left open and locked.
        """
        await _ended(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        self.messaging.stop_waiting()
        if self.sealing is not None:
            await asyncio.to_thread(self.sealing.close)
        if self.cleanup is not None:
            await self.cleanup.close()
        await self._engine.writer.close()
        if self.own_transactions is not None:
            await self.own_transactions.close()
        await self.namespaces.close()
        await self._engine.close()


async def open_services(
    store: str,
    limits: Limits | None = None,
    clock: Clock | None = None,
    *,
    settings: Settings | None = None,
    registry: CollectorRegistry | None = None,
    lease: HeldLease | None = None,
) -> OpenServices:
    """Return the services on `store` within the running event loop; close them when done.

    `limits` and `settings` have their defaults where they are not given; with a `lease`, nothing is
    done but under that. Raises as `open_tables`.
    """
    settings = settings or Settings.model_construct()
    limits = limits or settings.limits()
    clock = clock or SystemClock()
    registry = registry or CollectorRegistry()
    tables = await asyncio.to_thread(open_tables, store, settings, takes_over=True, lease=lease)

    async def open_beside(url: str, is_own_folder: bool) -> MetadataStore:  # noqa: FBT001  a Callable
        return await open_metadata(url, settings, tables if is_own_folder else None)

    try:
        namespaces = await open_namespaces(settings.metadata, store, limits, open_beside)
    except BaseException:
        tables.close()
        raise
    has_transactions = settings.transactions == "own"
    services = await services_on(
        tables, limits, clock, registry, namespaces, has_transactions=has_transactions, lease=lease
    )
    inspection = Partwise(
        tables.store,
        limits,
        clock,
        snapshot=services.snapshot,
        cache=services.messaging.cache_check(),
    )
    services = replace(services, inspection=inspection)
    if lease is not None and isinstance(tables, SealedTables):
        services = replace(services, sealing=Sealing(tables))
    try:
        hbase = hbase_options(settings, lease)
        cleanup = await _start_cleanup(
            services, store, tables.store, settings, clock, registry, hbase
        )
    except BaseException:
        await services.close()
        raise
    return replace(services, cleanup=cleanup)


async def open_embedded(store: str) -> OpenServices:
    """Return the services on `store` for a client in this process.

    A caller that is cancelled meanwhile waits until the store is closed again.
    """
    opening = asyncio.ensure_future(open_services(store))
    try:
        return await _ended(opening)
    except asyncio.CancelledError:
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()
        raise


async def _ended(task: "asyncio.Future[T]") -> T:
    """Return what `task` returns; where the caller is cancelled, raise that, but after its end."""
    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):  # a scope around it would cancel at each turn of the loop
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    await checkpoint_if_cancelled()
    return task.result()


async def _start_cleanup(  # noqa: PLR0917  as `open_services` has them
    services: OpenServices,
    url: str,
    store: Store,
    settings: Settings,
    clock: Clock,
    registry: CollectorRegistry,
    hbase: dict[str, Any],
) -> CleanupService:
    """Start the thread that cleans up the `store` at `url` beside the services on it."""
    transactions = services.own_transactions
    limits, metrics = services._engine.limits, services.messaging.metrics  # noqa: SLF001
    asked = LoopServices(asyncio.get_running_loop(), services.messaging, transactions)
    inverts = settings.cleanup_invalid
    cleaner: Passes
    if url.startswith("hbase:"):
        from cleanup.hbase.opening import ServerCleaner  # noqa: PLC0415  an extra

        make = partial(ServerCleaner, url, hbase, asked, limits, clock)
        workers = settings.cleanup_workers
        cleaner = await asyncio.to_thread(
            make, recording=store, workers=workers, inverts_invalid=inverts
        )
    else:
        cleaner = Cleaner(store, asked, limits, clock, inverts_invalid=inverts)
    runner = Runner(cleaner, limits, clock, lambda: metrics.requests)
    CleanupMetrics(registry, runner, clock)
    return CleanupService(runner, store, transactions, limits)


async def services_on(
    tables: Tables,
    limits: Limits,
    clock: Clock,
    registry: CollectorRegistry,
    namespaces: DeclaredNamespaces | None = None,
    *,
    has_transactions: bool = True,
    lease: HeldLease | None = None,
) -> OpenServices:
    """Return the services on `tables`, which close with them, also where this fails.

    So do `namespaces`; none are declared where that is None. Without transactions, write pointers
    are another manager's. Raises `StoreCorrupt` where the log
    of transactions is damaged, `StoreUnavailable`.
    """
    namespaces = namespaces or UndeclaredNamespaces(limits)
    key_time = None if lease is None else KeyTime(clock, lease)
    if not has_transactions:
        engine = Engine(tables, limits, clock, registry, key_time=key_time)
        messaging = Service(engine, declared=namespaces.rules)
        subscriptions = SubscriptionService(engine, messaging.states)
        elsewhere = cast("Transactions", TransactionsOfOthers())
        return OpenServices(messaging, elsewhere, subscriptions, namespaces, engine)
    token = 0 if lease is None else lease.token
    recover = partial(recover_state, tables.transactions, limits, token=token)
    try:
        recovered = await asyncio.to_thread(recover, clock.now_ms())
    except BaseException:
        await namespaces.close()
        tables.close()
        raise
    engine = Engine(tables, limits, clock, registry, key_time=key_time)
    publications = Publications()
    transactions = open_transactions(engine, recover, recovered, publications, registry)
    messaging = Service(engine, publications, transactions, namespaces.rules)
    subscriptions = SubscriptionService(engine, messaging.states)
    transactions.move_by(subscriptions.moves)
    transactions.publish_by(messaging.references)
    return OpenServices(messaging, transactions, subscriptions, namespaces, engine)


def open_transactions(
    engine: Engine,
    recover: Recover,
    recovered: Recovered,
    publications: Publications,
    registry: CollectorRegistry,
) -> TransactionService:
    """Return the transaction manager that goes on from what was `recovered`."""
    writer, lanes, tables = engine.writer, engine.lanes, engine.tables
    time = SteadyTime(engine.clock)
    journal = Journal(
        recover, recovered, time=time, lanes=lanes, tables=tables, publications=publications
    )
    TransactionMetrics(registry, journal, time)
    snapshots = Snapshots(
        journal, writer=writer, lanes=lanes, tables=tables, limits=engine.limits, time=time
    )
    return TransactionService(
        journal, snapshots, writer=writer, publications=publications, time=time
    )
