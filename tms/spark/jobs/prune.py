"""Deletes expired rows and rows of deleted topics from a store on HBase, one task per region.

For stores with many regions, for which `tms prune` in one process would take too long. It uses
HBase directly, not a server, and needs the extra `hbase` on all workers; servers may run in the
meantime. A repeated task finds its earlier deletions done. Entries of invalid transactions are left
to servers and to `tms prune`, because caches depend on the invalid list.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tms.core.text.store_url import HBASE, has_scheme

_REGION = "number int, url string, region_table string, first binary, behind binary"
_DONE = pa.schema([("region", pa.int32()), ("reason", pa.string()),
                   ("rows", pa.int64()), ("row_bytes", pa.int64())])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pruned:
    """The rows that a run deleted."""

    regions: int
    rows: int
    row_bytes: int
    by_reason: dict[str, int]
    """Rows by `ttl` and `generation`."""


def prune(
    spark: SparkSession, store: str, on_regions: Callable[[int], object] = lambda _: None
) -> Pruned:
    """Prune the store at `hbase://HOST:PORT/PREFIX`; return the numbers of deleted rows.

    `on_regions` is called with the number of regions. Other settings come from the workers'
    environment (`TMS_…`). Raises `ValueError` for another URL, and Spark's errors.
    """
    if not has_scheme(store, HBASE):
        raise ValueError(f"{store} is not a store on HBase: give hbase://HOST:PORT/PREFIX")
    from tms.server.jobs import regions  # noqa: PLC0415  the server's extra
    from tms.settings import load  # noqa: PLC0415

    parts = regions(store, load({"store": store}, None).settings)
    on_regions(len(parts))
    rows = [(number, *region) for number, region in enumerate(parts)]
    # Partition by number, not by hash, so that nearly every region has a partition of its own.
    parted = spark.createDataFrame(rows, _REGION).repartitionByRange(len(rows), "number")
    done = parted.mapInArrow(
        _Pruning(store), "region int, reason string, rows bigint, row_bytes bigint"
    )
    totals = done.groupBy("reason").agg(
        f.sum("rows").alias("rows"), f.sum("row_bytes").alias("row_bytes")
    )
    by_reason = {row.reason: (row.rows, row.row_bytes) for row in totals.collect()}
    return Pruned(
        len(parts),
        sum(count for count, _ in by_reason.values()),
        sum(size for _, size in by_reason.values()),
        {reason: count for reason, (count, _) in by_reason.items()},
    )


class _Pruning:
    """A task's work on its regions; Spark's workers have copies of it."""

    def __init__(self, store: str) -> None:
        self._store = store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tms.server.jobs import StoreRegion, prune_region  # noqa: PLC0415  the server's extra
        from tms.settings import load  # noqa: PLC0415

        settings = load({"store": self._store}, None).settings
        for batch in batches:
            for row in batch.to_pylist():
                region = StoreRegion(row["url"], row["region_table"], row["first"], row["behind"])
                counts = prune_region(settings, region)
                made = [
                    {
                        "region": row["number"],
                        "reason": str(reason),
                        "rows": counts[reason, "rows"],
                        "row_bytes": counts[reason, "bytes"],
                    }
                    for reason, kind in counts
                    if kind == "rows"
                ]
                yield pa.RecordBatch.from_pylist(made, schema=_DONE)
