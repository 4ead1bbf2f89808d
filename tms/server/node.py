"""Puts the parts together: a store, the services on it, and what cleans up beside them.

The one module that sees everything.
"""

import asyncio
import importlib.util
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from prometheus_client import CollectorRegistry

from tms.core.clock import Clock, SessionTime
from tms.core.cluster import HeldLease
from tms.core.limits import Limits
from tms.core.store_access import StoreAccess
from tms.core.store_url import HBASE, folder_of, has_scheme
from tms.core.tables import Tables
from tms.core.transactions import AsyncTransactions
from tms.core.trusted_clock import TrustedClock, trusted
from tms.messaging.mark import StoreMark
from tms.messaging.ranges.service import RangeService
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.unfinished_publications import UnfinishedPublications
from tms.metadata.interface import MetadataStore
from tms.namespaces.opening import DeclaredNamespaces, open_namespaces
from tms.namespaces.store import UndeclaredNamespaces
from tms.registry.in_process import LocalSchemas
from tms.server.stores import hbase_options, importing, open_metadata, open_tables
from tms.settings import Settings
from tms.transactions.foreign_manager import TransactionsOfOthers
from tms.transactions.journal import Recover, TransactionJournal
from tms.transactions.metrics import TransactionMetrics
from tms.transactions.recovery import RecoveredState
from tms.transactions.recovery import recover as recover_state
from tms.transactions.service import TransactionService
from tms.transactions.snapshot_writer import Snapshots

T = TypeVar("T")

with importing("tables"), importing("cleanup"):
    from cleanup.cleaner import Cleaner
    from cleanup.inspection_service import Partwise
    from cleanup.loop_calls import LoopServices
    from cleanup.metrics import CleanupMetrics
    from cleanup.runner import Passes, Runner
    from cleanup.service import CleanupService
    from cleanup.topic_rules import TopicRules
    from tables.prune_bound_table import StoreBoundTable
    from tables.room import RoomMetrics
    from tables.sealing.background import Sealing
    from tables.sealing.tables import SealedTables
    from tables.sealing.takeovers import take_over
    from tables.store import MESSAGE, Store
    from tables.store_tables import StoreTables

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenServices:
    """All services on one store (`tms.core.services.ServerServices`)."""

    messaging: Service
    transactions: AsyncTransactions
    subscriptions: SubscriptionService
    namespaces: DeclaredNamespaces
    schemas: LocalSchemas
    _engine: StoreRuntime
    cleanup: CleanupService | None = None
    """None where nobody asked for it."""
    inspection: Partwise | None = None
    """As above."""
    store: Store | None = None
    """As above."""
    room: RoomMetrics | None = None
    """None where nobody asked for it, and for a store that is not in a folder."""
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

    async def refresh_metrics(self) -> None:
        """See to it that metrics that have to be looked for are up to date; a bounded time."""
        await self.subscriptions.refresh_lags()
        if self.room is not None:
            await asyncio.to_thread(self.room.refresh)

    def warnings(self) -> list[str]:
        """Return what should be done something about soon, in words; always in the same time."""
        own = self.own_transactions
        return [] if own is None else own.warnings()

    @property
    def ranges(self) -> RangeService:
        """The readable ranges of topics, in parts."""
        return self.messaging.ranges

    async def raise_format(self) -> None:
        """Record the present format of the store. Raises `StoreUnavailable`."""
        if self.store is not None:
            await asyncio.to_thread(self.store.raise_format)

    async def close(self) -> None:
        """Write what is queued, refuse what comes after, and close the store.

        Also where the caller is cancelled: otherwise it would be left open and locked.
        """
        await _ended(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        self.messaging.stop_waiting()
        async with AsyncExitStack() as last_first:  # so that what fails leaves none of them open
            last_first.push_async_callback(self._engine.close)
            last_first.push_async_callback(self.namespaces.close)
            if self.own_transactions is not None:
                last_first.push_async_callback(self.own_transactions.close)
            last_first.push_async_callback(self._engine.writer.close)
            if self._engine.mark is not None:
                last_first.push_async_callback(self._engine.mark.close)
            last_first.push_async_callback(self.messaging.rollbacks.finish)
            if self.cleanup is not None:
                last_first.push_async_callback(self.cleanup.close)
            if self.sealing is not None:
                last_first.push_async_callback(asyncio.to_thread, self.sealing.close)


async def open_services(
    store: str,
    limits: Limits | None = None,
    clock: Clock | None = None,
    *,
    settings: Settings | None = None,
    registry: CollectorRegistry | None = None,
    lease: HeldLease | None = None,
    may_block_loop: bool = False,
    access: StoreAccess = StoreAccess.CREATE,
) -> OpenServices:
    """Return the services on `store` within the running event loop; close them when done.

    `limits` and `settings` have their defaults where they are not given; with a `lease`, nothing is
    done but under that. If `access` is to read, no part of them writes. Say where the loop serves
    nothing else. Raises as `open_tables`.
    """
    settings = settings or Settings.model_construct()
    limits = limits or settings.limits()
    clock = trusted(clock, limits)
    registry = registry or CollectorRegistry()
    tables = await asyncio.to_thread(
        open_tables, store, settings, access, takes_over=True, lease=lease
    )

    async def open_beside(url: str, is_own_folder: bool) -> MetadataStore:  # noqa: FBT001  a Callable
        return await open_metadata(url, settings, tables if is_own_folder else None, access)

    try:
        namespaces = await open_namespaces(settings.metadata, store, limits, open_beside)
    except BaseException:
        tables.close()
        raise
    has_transactions = settings.transactions == "own"
    services = await services_on(
        tables,
        limits,
        clock,
        registry,
        namespaces,
        has_transactions=has_transactions,
        lease=lease,
        may_block_loop=may_block_loop,
        access=access,
    )
    inspection = Partwise(
        tables.store,
        limits,
        clock,
        snapshot=services.snapshot,
        cache=services.messaging.cache_check(),
    )
    folder = folder_of(store)
    room = None if folder is None else RoomMetrics(registry, folder)
    services = replace(services, inspection=inspection, store=tables.store, room=room)
    if lease is not None and isinstance(tables, SealedTables):
        services = replace(services, sealing=Sealing(tables))
    if access is StoreAccess.READ:
        return services
    try:
        hbase = hbase_options(settings, lease)
        cleanup = await _start_cleanup(
            services, store, tables.store, settings, clock, registry, hbase
        )
    except BaseException:
        await services.close()
        raise
    return replace(services, cleanup=cleanup)


async def open_embedded(store: str, access: StoreAccess) -> OpenServices:
    """Return the services on `store` for a client in this process.

    A caller that is cancelled meanwhile waits until the store is closed again.
    """
    opening = asyncio.ensure_future(open_services(store, access=access))
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
    clock: TrustedClock,
    registry: CollectorRegistry,
    hbase: dict[str, Any],
) -> CleanupService:
    """Start the thread that cleans up the `store` at `url` beside the services on it."""
    transactions = services.own_transactions
    limits, metrics = services._engine.limits, services.messaging.metrics  # noqa: SLF001
    asked = LoopServices(asyncio.get_running_loop(), services.messaging, transactions)
    inverts = settings.cleanup_invalid
    rules = TopicRules(store, asked, limits, clock)
    cleaner: Passes
    if has_scheme(url, HBASE):
        from cleanup.hbase.opening import ServerCleaner  # noqa: PLC0415  an extra

        make = partial(ServerCleaner, url, hbase, asked, limits, clock)
        workers = settings.cleanup_workers
        cleaner = await asyncio.to_thread(
            make, recording=store, workers=workers, inverts_invalid=inverts, rules=rules
        )
    else:
        cleaner = Cleaner(store, asked, limits, clock, inverts_invalid=inverts, rules=rules)
    runner = Runner(cleaner, limits, clock, lambda: metrics.requests)
    CleanupMetrics(registry, runner, clock, rules.held_ms)
    return CleanupService(runner, store, transactions, limits, clock)


async def services_on(
    tables: Tables,
    limits: Limits,
    clock: Clock,
    registry: CollectorRegistry,
    namespaces: DeclaredNamespaces | None = None,
    *,
    has_transactions: bool = True,
    lease: HeldLease | None = None,
    may_block_loop: bool = False,
    access: StoreAccess = StoreAccess.CREATE,
) -> OpenServices:
    """Return the services on `tables`, which close with them, also where this fails.

    So do `namespaces`; none are declared where that is None. Without transactions, write pointers
    are another manager's. Raises `StoreCorrupt` where the log
    of transactions is damaged, `StoreUnavailable`.
    """
    clock = trusted(clock, limits)
    namespaces = namespaces or UndeclaredNamespaces(limits)
    token = 0 if lease is None else lease.token
    mark = StoreMark(tables, clock, token)
    try:
        await asyncio.to_thread(_open_mark, mark, tables, access)
    except BaseException:
        await namespaces.close()
        tables.close()
        raise
    engine_on = partial(
        StoreRuntime,
        tables,
        limits,
        clock,
        registry,
        lease=lease,
        mark=mark,
        may_block_loop=may_block_loop,
    )
    if not has_transactions:
        engine = _marked(engine_on(), access)
        messaging = Service(engine, declared=namespaces.rules)
        subscriptions = SubscriptionService(engine, messaging.states)
        elsewhere = cast("AsyncTransactions", TransactionsOfOthers())
        schemas = _schemas_on(messaging, clock)
        return OpenServices(messaging, elsewhere, subscriptions, namespaces, schemas, engine)
    recover = partial(recover_state, tables.transactions, limits, token=token, access=access)
    try:
        recovered = await asyncio.to_thread(recover, clock.now_ms())
        if lease is not None and isinstance(tables, SealedTables):
            await asyncio.to_thread(_know_takeovers, tables, token, recovered)
    except BaseException:
        await namespaces.close()
        tables.close()
        raise
    engine = _marked(engine_on(), access)
    publications = UnfinishedPublications()
    transactions = open_transactions(engine, recover, recovered, publications, registry)
    messaging = Service(engine, publications, transactions, namespaces.rules)
    subscriptions = SubscriptionService(engine, messaging.states, transactions)
    transactions.move_by(subscriptions.moves)
    transactions.publish_by(messaging.references)
    schemas = _schemas_on(messaging, clock)
    return OpenServices(messaging, transactions, subscriptions, namespaces, schemas, engine)


def _know_takeovers(tables: SealedTables, token: int, recovered: RecoveredState) -> None:
    """Have only what went on over a takeover sealed. Blocks. Raises as `recover_state`."""
    state, last = recovered.state, recovered.state.last_write_pointer
    going_on = [pointer for opened in state.opened for pointer in opened.pointers]
    before = last if recovered.before_last is None else recovered.before_last
    crossings = take_over(tables.store, token, recovered.last_token, before, going_on)
    tables.sealed.runs.know(last, going_on, crossings)


def _marked(engine: StoreRuntime, access: StoreAccess) -> StoreRuntime:
    """Have the mark put by and by, if anything may be."""
    assert engine.mark is not None
    if access is not StoreAccess.READ:
        engine.mark.keep(engine.writer, lambda: engine.metrics.flush_requests.total)
    return engine


def _open_mark(mark: StoreMark, tables: Tables, access: StoreAccess) -> None:
    """Have the time go on from the store's mark. Blocks.

    A store without one is of a version whose cleanup guessed when transactions wrote what. So its
    bounds are forgotten before there is a mark: what was passed over, and is listed, is found then.
    """
    if mark.open() or access is StoreAccess.READ:
        return
    if isinstance(tables, StoreTables | SealedTables):
        bounds = StoreBoundTable(tables.store)
        forgotten = tables.batch()
        bounds.delete(forgotten, MESSAGE, [bound.start for bound in bounds.bounds(MESSAGE)])
        tables.write(forgotten)
    batch = tables.batch()
    mark.put(batch)
    tables.write(batch)


def _schemas_on(messaging: Service, clock: Clock) -> LocalSchemas:
    """Return the registry on a service, by which that checks payloads if the extra is installed."""
    schemas = LocalSchemas(messaging, clock)
    if importlib.util.find_spec("avro") is not None:
        messaging.schema_checks.values = schemas.values
    return schemas


def open_transactions(
    engine: StoreRuntime,
    recover: Recover,
    recovered: RecoveredState,
    publications: UnfinishedPublications,
    registry: CollectorRegistry,
) -> TransactionService:
    """Return the transaction manager that goes on from what was `recovered`."""
    writer, threads, tables = engine.writer, engine.threads, engine.tables
    time = SessionTime(engine.clock)
    journal = TransactionJournal(
        recover, recovered, time=time, threads=threads, tables=tables, publications=publications
    )
    TransactionMetrics(registry, journal, time)
    snapshots = Snapshots(
        journal, writer=writer, threads=threads, tables=tables, limits=engine.limits, time=time
    )
    return TransactionService(
        journal, snapshots, writer=writer, publications=publications, time=time
    )
