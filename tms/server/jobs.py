"""Work on whole stores that needs no server: a pass of cleanup on HBase, and a copy.

The server's packages are found once `tms.server.stores` is imported, so it comes first.
"""

from collections import Counter
from typing import TYPE_CHECKING

from tms.core.clock import SystemClock
from tms.core.mark import ClockElsewhere, carry_mark, latest_mark
from tms.core.store_access import StoreAccess
from tms.core.store_url import LEVELDB, folder_of
from tms.server.stores import hbase_options, open_tables
from tms.settings import Settings
from tms.transactions.copied_state import CopiedTransactions, carry

if TYPE_CHECKING:
    from cleanup.hbase.opening import Pruning
    from tables.copying import Copying


def open_pruning(store: str, settings: Settings, workers: int) -> "Pruning":
    """Return a pass of cleanup over `store`, which is `hbase://…`; close it when it is done.

    Raises as `open_tables`.
    """
    from cleanup.hbase.opening import Pruning  # noqa: PLC0415  behind tms.server.stores; an extra

    limits = settings.limits()
    return Pruning(store, hbase_options(settings), limits, SystemClock(), workers=workers)


def open_copy(source: str, target: str, settings: Settings) -> "tuple[Copying, CopiedTransactions]":
    """Return a copy of one store into another, and what went over of its transactions.

    Close the first when it is done. Raises as `open_tables`, and `CopyRefused`.
    """
    from tables.copying import Copying  # noqa: PLC0415  behind tms.server.stores

    folder = folder_of(source)
    name = source.partition("?")[0] if folder is None else f"{LEVELDB.prefix}{folder.resolve()}"
    limits, now_ms = settings.limits(), SystemClock().now_ms()
    own = open_tables(source, settings, StoreAccess.READ)
    try:
        other = open_tables(target, settings)
    except BaseException:
        own.close()
        raise
    copying = Copying(own.store, other.store, name)
    try:
        copying.check()
        carried = carry(own.transactions, other.transactions, limits, now_ms)
        carry_mark(own.transactions, other)
    except BaseException:
        copying.close()
        raise
    return copying, carried


def regions(store: str, settings: Settings) -> list[tuple[str, bytes, bytes]]:
    """Return the regions of the tables of `store`, `hbase://…`: table, first row, row behind.

    Raises as `open_tables`.
    """
    from tables.hbase.opening import ANY_SHARD, open_store  # noqa: PLC0415  as below; an extra
    from tables.store import MESSAGE, PAYLOAD  # noqa: PLC0415  behind tms.server.stores

    opened = open_store(store, shard=ANY_SHARD, **hbase_options(settings))
    try:
        found = [*opened.regions(MESSAGE), *opened.regions(PAYLOAD)]
    finally:
        opened.close()
    return [(region.table, region.start, region.stop) for region in found]


def prune_region(
    store: str, settings: Settings, region: tuple[str, bytes, bytes]
) -> Counter[tuple[str, str]]:
    """Delete from a region what has expired or is of deleted topics; return how much, by what.

    Counts have the keys (reason, "rows") and (reason, "bytes"). Any number of processes may do so,
    servers beside them; what one has done another finds done. Of invalid transactions nothing is
    touched: that is a pass's business (`open_pruning`). Raises as `open_tables`.
    """
    from cleanup.hbase.opening import recorded_invalid_list  # noqa: PLC0415  as above
    from cleanup.hbase.parts import CachedTopics  # noqa: PLC0415  behind tms.server.stores; an extra
    from cleanup.hbase.worker import Memory, Worker, WorkerContext  # noqa: PLC0415
    from cleanup.ranges import Step  # noqa: PLC0415
    from tables.hbase.opening import ANY_SHARD, open_store  # noqa: PLC0415
    from tables.hbase.regions import Region  # noqa: PLC0415
    from tables.transaction_table import StoreTransactionTable  # noqa: PLC0415

    limits = settings.limits()
    opened = open_store(store, shard=ANY_SHARD, **hbase_options(settings))
    counts: Counter[tuple[str, str]] = Counter()
    try:
        clock = ClockElsewhere(latest_mark(StoreTransactionTable(opened)))
        topics = CachedTopics(opened, clock)
        work = WorkerContext(opened, topics, Memory(), limits, clock, limits.cleanup_slice_rows)
        listed = recorded_invalid_list(opened, limits, clock.now_ms())
        for step in Worker(work, Region(*region), (), 0, listed).steps():
            if isinstance(step, Step):
                counts[step.reason, "rows"] += step.dropped
                counts[step.reason, "bytes"] += step.dropped_bytes
    finally:
        opened.close()
    return counts
