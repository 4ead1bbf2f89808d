"""Work on whole stores that needs no server: a pass of cleanup on HBase, a copy, a restore.

The server's packages can be imported once `tms.server.stores` is, so it comes first.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tms.core.errors import Unavailable
from tms.core.runtime.clock import SystemClock
from tms.core.runtime.extras import missing
from tms.core.services.mark import ClockElsewhere, latest_mark
from tms.core.text.store_url import LEVELDB, folder_of, url_of_shard
from tms.core.values.shards import EVERY_ID, OneShard, OwnIds
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.server.copied_settings import CopiedSettings, copy_settings
from tms.server.stores import hbase_options, open_tables, sharding_of
from tms.settings import Settings
from tms.transactions.copied_state import CopiedTransactions, TargetHas, carry, read_source

if TYPE_CHECKING:
    from cleanup.hbase.opening import Pruning
    from cleanup.ranges import Step
    from tables.copying import Copying, CopyStep
    from tables.store_tables import StoreTables

_SHARD_CONNECTIONS = 2
"""Connections to HBase for each shard of a copy, of which one at a time is read or written."""


class StorePruning:
    """A pass of cleanup over a store, or over its shards, one after another."""

    def __init__(self, opens: "Sequence[Callable[[], Pruning]]") -> None:
        """Open each store when its turn comes."""
        self._opens = opens
        self._opened: list[Pruning] = []

    def steps(self) -> "Generator[Step, None, None]":
        """Do the pass. Close this generator before the stores: closing waits for its workers.

        If a shard is unavailable, the others are done all the same. Raises as `Pruning.steps` and
        `open_tables` do.
        """
        failures: list[Unavailable] = []
        for open_one in self._opens:
            try:
                self._opened.append(open_one())
                with closing(self._opened[-1].steps()) as steps:
                    yield from steps
            except Unavailable as error:
                failures.append(error)
        for failure in failures[:1]:
            raise failure

    @property
    def progress(self) -> tuple[int, int]:
        """The number of regions that are done, and of all in the open stores."""
        counts = [pruning.progress for pruning in self._opened]
        return sum(done for done, _ in counts), sum(regions for _, regions in counts)

    @property
    def holder(self) -> str | None:
        """Another process that cleans up one of them, which this pass therefore skipped."""
        return next((each.holder for each in self._opened if each.holder is not None), None)

    def close(self) -> None:
        """Close the stores."""
        for pruning in self._opened:
            pruning.close()


def open_pruning(store: str, settings: Settings, workers: int) -> StorePruning:
    """Return a pass of cleanup over `store`, which is `hbase://…`; close it when it is done.

    That may be one shard. Raises as `open_tables` does.
    """
    from cleanup.hbase.opening import Pruning  # noqa: PLC0415  after tms.server.stores; an extra
    from tables.hbase.opening import shards_within  # noqa: PLC0415  as above

    options = hbase_options(settings)

    def open_one(url: str) -> Pruning:
        return Pruning(url, options, settings.limits(), SystemClock(), workers=workers)

    return StorePruning([partial(open_one, each) for each in shards_within(store, **options)])


def restore_backup(
    backup: str, folder: Path, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Restore a backup, a folder or a URL, as the data folder `folder`.

    Raises as `tables.restoring.restore`, and `ModuleNotFoundError` without the extra `backup`.
    """
    from tables.restoring import (  # noqa: PLC0415  after tms.server.stores
        BackupSource,
        FolderSource,
        restore,
    )

    source: BackupSource = FolderSource(Path(backup))
    if "://" in backup:
        try:
            from tables.remote_backups import RemoteSource  # noqa: PLC0415  an extra
        except ModuleNotFoundError as error:
            raise missing("Backups at a URL need fsspec", error, "backup") from None
        source = RemoteSource(backup)
    return restore(source, folder, progress)


class StoreCopy:
    """A copy of one store into another; each may have shards."""

    def __init__(
        self,
        parts: "Sequence[tuple[Copying, CopiedTransactions]]",
        copies_settings: Callable[[], Coroutine[None, None, CopiedSettings]],
        closing: ExitStack,
    ) -> None:
        """Copy in `parts`, one after another; `closing` closes the stores."""
        self._parts = parts
        self._copies_settings = copies_settings
        self._closing = closing
        self.topics_count = sum(copying.topics_count for copying, _ in parts)
        self.invalids = frozenset[int]().union(*(carried.invalids for _, carried in parts))
        """The source's invalid write pointers."""
        has = {carried.target_has for _, carried in parts}
        self.target_has: TargetHas = has.pop() if len(has) == 1 else "its own"
        """Says which transactions the target has now."""

    def steps(self) -> "Generator[CopyStep, None, None]":
        """Copy what the target lacks, yielding each finished step. Raises as `Copying` does."""
        for copying, carried in self._parts:
            yield from copying.steps(carried.invalids, carried.taken)

    def copy_settings(self) -> CopiedSettings:
        """Copy the settings of namespaces. Raises `StoreUnavailable`, `StoreCorrupt`."""
        return asyncio.run(self._copies_settings())

    def close(self) -> None:
        """Close the stores."""
        self._closing.close()


class _Opened(NamedTuple):
    """A store, or one of its shards."""

    tables: "StoreTables"
    name: str
    shard: OneShard | None


def open_copy(source: str, target: str, settings: Settings) -> StoreCopy:
    """Return a copy of one store into another; the state of transactions has been carried over.

    Close it when it is done. Raises as `open_tables` does, and `CopyRefused`.
    """
    from tables.copying import Copying, carry_mark  # noqa: PLC0415  after tms.server.stores

    limits, now_ms = settings.limits(), SystemClock().now_ms()
    opening = ExitStack()
    parts: list[tuple[Copying, CopiedTransactions]] = []
    try:
        sources = [*_opened(source, settings, StoreAccess.READ, opening)]
        targets = [*_opened(target, settings, StoreAccess.CREATE, opening)]
        copies = [
            [
                Copying(own.tables.store, other.tables.store, own.name, _place_of(other.shard))
                for own in sources
            ]
            for other in targets
        ]
        for copying in chain.from_iterable(copies):
            copying.check()
        source_state = read_source((own.tables.transactions for own in sources), limits, now_ms)
        for other, into in zip(targets, copies, strict=True):
            ids = _ids_of(other.shard)
            carried = carry(source_state, other.tables.transactions, limits, now_ms, ids)
            for own in sources:
                carry_mark(own.tables.transactions, other.tables)
            parts += [(copying, carried) for copying in into]
    except BaseException:
        opening.close()
        raise
    copies_settings = partial(copy_settings, source, sources[0].tables, target, targets[0].tables)
    return StoreCopy(parts, copies_settings, opening)


def _opened(
    url: str, settings: Settings, access: StoreAccess, closing: ExitStack
) -> Iterator[_Opened]:
    """Open a store, or all of its shards; `closing` closes them."""
    folder = folder_of(url)
    name = url.partition("?")[0] if folder is None else f"{LEVELDB.prefix}{folder.resolve()}"
    sharding = sharding_of(url, settings)
    if sharding is None:
        tables = open_tables(url, settings, access)
        closing.callback(tables.close)
        yield _Opened(tables, name, None)
        return
    share = settings.model_copy(update={"hbase_connections": _SHARD_CONNECTIONS})
    for number in range(sharding.shards):
        shard = OneShard(number, sharding)
        tables = open_tables(url_of_shard(url, number), share, access, shard=shard)
        closing.callback(tables.close)
        yield _Opened(tables, url_of_shard(name, number), shard)


def _ids_of(shard: OneShard | None) -> OwnIds:
    return EVERY_ID if shard is None else OwnIds(shard.shard, shard.sharding.shards)


def _place_of(shard: OneShard | None) -> Callable[[TopicId], bool] | None:
    """Return a function that says whether a topic is in a shard."""
    if shard is None:
        return None
    return lambda topic: shard.sharding.shard_of(topic) == shard.shard


class StoreRegion(NamedTuple):
    """A region of a store's table on HBase."""

    url: str
    """The store or the shard that has the table."""
    table: str
    first: bytes
    behind: bytes


def regions(store: str, settings: Settings) -> list[StoreRegion]:
    """Return the regions of the tables of `store`, `hbase://…`, or of its shards' tables.

    Raises as `open_tables` does.
    """
    from tables.hbase.opening import ANY_SHARD, open_store, shards_within  # noqa: PLC0415  as below
    from tables.store import MESSAGE, PAYLOAD  # noqa: PLC0415  after tms.server.stores

    options = hbase_options(settings)
    store_regions: list[StoreRegion] = []
    for url in shards_within(store, **options):
        with closing(open_store(url, shard=ANY_SHARD, **options)) as opened:
            store_regions += [
                StoreRegion(url, region.table, region.start, region.stop)
                for table in (MESSAGE, PAYLOAD)
                for region in opened.regions(table)
            ]
    return store_regions


def prune_region(settings: Settings, region: StoreRegion) -> Counter[tuple[str, str]]:
    """Delete expired rows and rows of deleted topics from a region; return how many, by reason.

    Counts have the keys (reason, "rows") and (reason, "bytes"). Any number of processes may do so
    at the same time as servers; work done by one is not repeated. Entries of invalid transactions
    are not touched: a pass does that (`open_pruning`). Raises as `open_tables` does.
    """
    from cleanup.hbase.opening import recorded_invalid_list  # noqa: PLC0415  as above
    from cleanup.hbase.parts import CachedTopics  # noqa: PLC0415  after tms.server.stores; an extra
    from cleanup.hbase.worker import Memory, Worker, WorkerContext  # noqa: PLC0415
    from cleanup.ranges import Step  # noqa: PLC0415
    from tables.hbase.opening import ANY_SHARD, open_store  # noqa: PLC0415
    from tables.hbase.regions import Region  # noqa: PLC0415
    from tables.transaction_table import StoreTransactionTable  # noqa: PLC0415

    limits = settings.limits()
    opened = open_store(region.url, shard=ANY_SHARD, **hbase_options(settings))
    counts: Counter[tuple[str, str]] = Counter()
    try:
        clock = ClockElsewhere(latest_mark(StoreTransactionTable(opened)))
        topics = CachedTopics(opened, clock)
        work = WorkerContext(opened, topics, Memory(), limits, clock, limits.cleanup_slice_rows)
        listed = recorded_invalid_list(opened, limits, clock.now_ms())
        for step in Worker(work, Region(*region[1:]), (), 0, listed).steps():
            if isinstance(step, Step):
                counts[step.reason, "rows"] += step.dropped
                counts[step.reason, "bytes"] += step.dropped_bytes
    finally:
        opened.close()
    return counts
