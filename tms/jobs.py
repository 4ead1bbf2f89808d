"""Work on whole stores that needs no server: a pass of cleanup on HBase, and a copy.

The server's packages are found once `tms.node` is imported, so it comes first.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tms.core.clock import SystemClock
from tms.node import hbase_options, open_tables
from tms.settings import Settings
from tms.transactions.carrying import Carried, carry

if TYPE_CHECKING:
    from cleanup.hbase.opening import Pruning
    from tables.copying import Copying


def open_pruning(store: str, settings: Settings, workers: int) -> "Pruning":
    """Return a pass of cleanup over `store`, which is `hbase://…`; close it when it is done.

    Raises as `open_tables`.
    """
    from cleanup.hbase.opening import Pruning  # noqa: PLC0415  behind tms.node; an extra

    limits = settings.limits()
    return Pruning(store, hbase_options(settings), limits, SystemClock(), workers=workers)


def open_copy(source: str, target: str, settings: Settings) -> "tuple[Copying, Carried]":
    """Return a copy of one store into another, and what went over of its transactions.

    Close the first when it is done. Raises as `open_tables`, and `CopyRefused`.
    """
    from tables.copying import Copying  # noqa: PLC0415  behind tms.node

    kind, _, place = source.partition(":")
    name = f"leveldb:{Path(place).resolve()}" if kind == "leveldb" else source.partition("?")[0]
    limits, now_ms = settings.limits(), SystemClock().now_ms()
    own = open_tables(source, settings)
    try:
        other = open_tables(target, settings)
    except BaseException:
        own.close()
        raise
    copying = Copying(own.store, other.store, name)
    try:
        copying.check()
        return copying, carry(own.transactions, other.transactions, limits, now_ms)
    except BaseException:
        copying.close()
        raise
