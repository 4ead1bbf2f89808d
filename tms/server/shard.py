"""A shard: the parts that a store has once. One server at a time leads it.

1. Its parts are created once and in one order, each from those before it. No part is set in another
   later, so any code that has a part may use it.
2. They are closed in reverse order, all of them, even if some raise. The tables stay open: their
   opener closes them.

The parts that a process shares between several shards are its `Process`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from prometheus_client import CollectorRegistry

from tms.core.errors import Stopping, Unavailable
from tms.core.limits import Limits
from tms.core.runtime.held_lease import HeldLease
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.services.commits import Carrier
from tms.core.services.findings import Finding, FindingKind, writes_refused
from tms.core.services.payload_values import PayloadValues
from tms.core.services.transactions import AsyncTransactions
from tms.core.text.store_url import HBASE, has_scheme
from tms.core.values.lags import ReaderLag
from tms.core.values.shards import EVERY_ID, OwnIds
from tms.core.values.store_access import StoreAccess
from tms.messaging.admission import Admission
from tms.messaging.cache import CacheBudget
from tms.messaging.features import Instances
from tms.messaging.groups.service import GroupService
from tms.messaging.joint_publications import StoredPublications
from tms.messaging.mark import MarkTimer, StoreMark
from tms.messaging.ranges.service import RangeService
from tms.messaging.schedules.service import ScheduleService
from tms.messaging.schema_checks import SchemaChecks
from tms.messaging.service import Service
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.topics import Topics
from tms.messaging.write_requests import Writing
from tms.namespaces.opening import DeclaredNamespaces
from tms.server.stores import hbase_options, importing
from tms.settings import Settings
from tms.transactions.foreign_manager import TransactionsOfOthers
from tms.transactions.journal import Recover, TransactionJournal
from tms.transactions.metrics import KEPT, TransactionMetrics
from tms.transactions.recovery import RecoveredState
from tms.transactions.recovery import recover as recover_state
from tms.transactions.service import TransactionService
from tms.transactions.snapshot_writer import Snapshots

with importing("tables"), importing("cleanup"):
    from cleanup.cleaner import Cleaner
    from cleanup.inspection_service import Partwise
    from cleanup.loop_calls import LoopServices
    from cleanup.metrics import CleanupMetrics
    from cleanup.runner import Passes, Runner
    from cleanup.service import CleanupService
    from cleanup.topic_rules import TopicRules
    from tables.prune_bound_table import StoreBoundTable
    from tables.sealing.background import Sealing
    from tables.sealing.tables import SealedTables
    from tables.sealing.takeovers import take_over
    from tables.store import MESSAGE, Store
    from tables.store_tables import StoreTables

_OF_OTHERS = cast("AsyncTransactions", TransactionsOfOthers())


class Process(NamedTuple):
    """The parts that a process has once, for any number of open shards."""

    limits: Limits
    clock: TrustedClock
    registry: CollectorRegistry
    """The registry of its metrics."""
    namespaces: DeclaredNamespaces
    values: PayloadValues | None
    """Checks and decodes values; None if no registry is installed."""
    may_block_loop: bool
    """Whether its event loop serves nothing else."""
    cache: CacheBudget | None = None
    """The memory for recent messages that its shards share; None if each has its own."""


class Upkeep(NamedTuple):
    """What the upkeep of a store needs in addition to the services: its URL and settings."""

    url: str
    store: Store
    settings: Settings
    pool: Any = None
    """The connections to HBase that shards share; None if each store has its own."""


Opened = tuple[StoreTables, Upkeep]
"""The tables of a shard, and its upkeep."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The services on one store, with its tables and its upkeep."""

    lease: HeldLease | None
    """The lease of the shard; None if this server is alone."""
    engine: StoreRuntime
    messaging: Service
    subscriptions: SubscriptionService
    groups: GroupService
    schedules: ScheduleService
    own_transactions: TransactionService | None
    """The transactions managed here; None if they are managed elsewhere."""
    transactions: AsyncTransactions
    """The same; if they are managed elsewhere, each call is refused."""
    upkeep: Upkeep | None
    """None if the services were opened without it."""
    cleanup: CleanupService | None
    """None without upkeep, or if the store is only read."""
    inspection: Partwise | None
    """None without upkeep."""
    _closing: AsyncExitStack

    @property
    def ranges(self) -> RangeService:
        """The readable ranges of topics."""
        return self.messaging.ranges

    async def refresh_lags(self) -> None:
        """Measure how far readers are behind; takes a bounded time."""
        await self.subscriptions.lags.refresh()
        await self.groups.lags.refresh()

    def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers are behind, as last measured."""
        return [*self.subscriptions.lags.lags(), *self.groups.lags.lags()]

    def shard_findings(self, kind: FindingKind, where: str) -> Sequence[Finding]:
        """Return a finding if the shard refuses writes, or those of its parts."""
        try:
            self.messaging.check_ready()
        except Stopping:
            return ()
        except Unavailable as error:
            return (writes_refused(kind, where, error),)
        return self.schedules.findings()

    def stop_waiting(self) -> None:
        """Let waiting polls and takes return now, and later ones at once."""
        self.messaging.stop_waiting()
        self.groups.stop_waiting()

    async def raise_format(self) -> None:
        """Record the present format of the store. Raises `StoreUnavailable`."""
        if self.upkeep is not None:
            await asyncio.to_thread(self.upkeep.store.raise_format)

    async def close(self) -> None:
        """Write queued requests and refuse later ones; the tables stay open."""
        await self._closing.aclose()


async def open_shard(
    tables: StoreTables,
    process: Process,
    *,
    lease: HeldLease | None,
    instances: Instances | None = None,
    access: StoreAccess,
    upkeep: Upkeep | None,
    ids: OwnIds = EVERY_ID,
) -> Shard:
    """Return the shard of `tables`, within the running event loop; close it when done.

    With a `lease`, everything is done under it; `instances` returns the servers of its cluster. New
    transactions get the write pointers `ids`. If `access` is to read, no part writes. Raises
    `StoreCorrupt` if the log of transactions is damaged, `StoreUnavailable`; then no part is open.
    """
    limits, clock = process.limits, process.clock
    token = 0 if lease is None else lease.token
    mark = StoreMark(tables, clock, token)
    await asyncio.to_thread(_open_mark, mark, tables, access)
    recover = partial(
        recover_state, tables.transactions, limits, token=token, access=access, ids=ids
    )
    recovered = None
    if upkeep is None or upkeep.settings.transactions == "own":
        recovered = await asyncio.to_thread(recover, clock.now_ms())
        if lease is not None and isinstance(tables, SealedTables):
            await asyncio.to_thread(_record_takeover, tables, token, recovered)
    async with AsyncExitStack() as last_first:
        engine = StoreRuntime(
            tables,
            limits,
            clock,
            process.registry,
            lease=lease,
            instances=instances,
            mark=mark,
            access=access,
            may_block_loop=process.may_block_loop,
            cache=process.cache,
        )
        last_first.push_async_callback(engine.close)
        services = _services(engine, process, recover, recovered)
        messaging, _, groups, schedules, transactions = services
        if transactions is not None:
            last_first.push_async_callback(transactions.close)
        last_first.push_async_callback(engine.writer.close)
        if access is not StoreAccess.READ:
            timer = MarkTimer(
                mark, clock, engine.writer, lambda: engine.metrics.flush_requests.total
            )
            last_first.push_async_callback(timer.close)
        last_first.push_async_callback(groups.close)
        last_first.push_async_callback(schedules.close)
        last_first.push_async_callback(messaging.rollbacks.finish)
        cleanup = inspection = None
        if upkeep is not None:
            snapshot = _no_snapshot if transactions is None else transactions.snapshot
            look = partial(Partwise, upkeep.store, limits, clock, snapshot=snapshot)
            inspection = look(cache=messaging.cache_check(), groups=groups)
            if access is not StoreAccess.READ:
                cleanup = await _start_cleanup(upkeep, messaging, transactions, process, lease)
                last_first.push_async_callback(cleanup.close)
            if lease is not None and isinstance(tables, SealedTables):
                last_first.push_async_callback(asyncio.to_thread, Sealing(tables).close)
        last_first.callback(messaging.stop_waiting)
        last_first.callback(groups.stop_waiting)
        closing = last_first.pop_all()
        all_services = (*services, transactions or _OF_OTHERS, upkeep, cleanup, inspection)
        return Shard(lease, engine, *all_services, closing)


def carriers_of(writing: Writing, *services: Carrier) -> Sequence[Carrier]:
    """Return the carriers of commits; to carry one more thing, add one here."""
    return StoredPublications(writing), *services


def _services(
    engine: StoreRuntime, process: Process, recover: Recover, recovered: RecoveredState | None
) -> tuple[Service, SubscriptionService, GroupService, ScheduleService, TransactionService | None]:
    """Create the services; their transactions continue from `recovered`, if there is a state."""
    journal = None
    if recovered is not None:
        journal = TransactionJournal(
            recover,
            recovered,
            clock=engine.clock,
            threads=engine.threads,
            tables=engine.tables,
            publications=engine.publications,
        )
        engine.writer.join(journal)
        TransactionMetrics(process.registry, journal)
        for kind, count in KEPT.items():
            engine.metrics.memory.show(kind, partial(count, journal))
    writing = Writing(engine, journal)
    subscriptions = SubscriptionService(engine, journal)
    topics = Topics(engine, Admission(engine.limits, engine.clock, process.namespaces.rules))
    groups = GroupService(writing, topics, subscriptions, journal)
    checks = SchemaChecks(process.values)
    schedules = ScheduleService(writing, topics, checks)
    carriers = carriers_of(writing, subscriptions, groups, schedules)
    messaging = Service(writing, topics=topics, carriers=carriers, checks=checks)
    schedules.start()
    if journal is None:
        return messaging, subscriptions, groups, schedules, None
    snapshots = Snapshots(
        journal,
        writer=engine.writer,
        threads=engine.threads,
        tables=engine.tables,
        limits=engine.limits,
    )
    transactions = TransactionService(
        journal,
        snapshots,
        writer=engine.writer,
        publications=engine.publications,
        carriers=carriers,
        undo=messaging.invalid_entries.invert_published if engine.tables.is_embedded else None,
    )
    return messaging, subscriptions, groups, schedules, transactions


def _open_mark(mark: StoreMark, tables: StoreTables, access: StoreAccess) -> None:
    """Let time continue from the store's mark. Blocks.

    A store without one is from a version whose cleanup guessed the times of transactions' entries.
    So its bounds are deleted before there is a mark: cleanup then finds entries that it had missed,
    if their transactions are still listed.
    """
    if mark.open() or access is StoreAccess.READ:
        return
    bounds = StoreBoundTable(tables.store)
    forgotten = tables.batch()
    bounds.delete(forgotten, MESSAGE, [bound.start for bound in bounds.bounds(MESSAGE)])
    tables.write(forgotten)
    batch = tables.batch()
    mark.put(batch)
    tables.write(batch)


def _record_takeover(tables: SealedTables, token: int, recovered: RecoveredState) -> None:
    """Let only runs that cross a takeover be sealed. Blocks. Raises as `recover_state` does."""
    state, last = recovered.state, recovered.state.last_write_pointer
    in_progress = [pointer for opened in state.opened for pointer in opened.pointers]
    before = last if recovered.before_last is None else recovered.before_last
    crossings = take_over(tables.store, token, recovered.last_token, before, in_progress)
    tables.sealed.runs.record_takeover(last, in_progress, crossings)


async def _no_snapshot() -> None:
    """Return no snapshot: transactions are managed elsewhere."""


async def _start_cleanup(
    upkeep: Upkeep,
    messaging: Service,
    transactions: TransactionService | None,
    process: Process,
    lease: HeldLease | None,
) -> CleanupService:
    """Start the cleanup thread of the services."""
    url, store, settings, pool = upkeep
    limits, clock = process.limits, process.clock
    calls = LoopServices(asyncio.get_running_loop(), messaging, transactions)
    inverts = settings.cleanup_invalid
    rules = TopicRules(store, calls, limits, clock)
    cleaner: Passes
    if has_scheme(url, HBASE):
        from cleanup.hbase.opening import ServerCleaner  # noqa: PLC0415  an extra

        hbase = hbase_options(settings, lease, pool)
        make = partial(ServerCleaner, url, hbase, calls, limits, clock)
        workers = settings.cleanup_workers
        cleaner = await asyncio.to_thread(
            make, recording=store, workers=workers, inverts_invalid=inverts, rules=rules
        )
    else:
        cleaner = Cleaner(store, calls, limits, clock, inverts_invalid=inverts, rules=rules)
        messaging.metrics.memory.show("cleaned_topics", lambda: cleaner.topic_count)
    runner = Runner(cleaner, limits, clock, lambda: messaging.metrics.requests)
    CleanupMetrics(process.registry, runner, clock, rules.held_ms)
    return CleanupService(runner, store, transactions, limits, clock)
