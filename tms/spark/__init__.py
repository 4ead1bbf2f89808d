"""Topics in Spark, through PySpark: `format("tms")`, read and written exactly once.

    from tms.spark import register
    register(spark)                        # only needed if Spark does not find `pyspark_tms`
    spark.read.format("tms").option("url", "http://HOST:PORT").option("subscribe", "orders").load()

`docs/spark.md` is the manual. Reading order: `offsets.py`, `options.py`, `plan.py`, which do not
use Spark; `prerequisites.py`, checks before a job; `server.py`, calls to the server; `rows.py`;
`typed/`, payloads as columns; `batch_owner.py`; `reader.py`, `stream.py`, `writer.py`, `source.py`,
which Spark calls; `jobs/`, which use all of these.

Importing this package imports neither PySpark nor Arrow; `register` does, as do the column
functions `from_tms` and `to_tms` (`typed/functions.py`) on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tms.spark.typed.functions import from_tms, to_tms

__all__ = ["from_tms", "lag", "register", "to_tms"]


def __getattr__(name: str) -> Any:
    if name == "lag":
        from tms.spark.lags import lag  # noqa: PLC0415  needs pyarrow

        return lag
    if name not in ("from_tms", "to_tms"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tms.spark.typed import functions  # noqa: PLC0415  needs PySpark

    return getattr(functions, name)


def register(spark: "SparkSession") -> None:
    """Make `format("tms")` known to a session, and push down filters if the session does.

    Needed if Spark does not find the package `pyspark_tms` by itself, and for pushing down filters
    without the option `pushdown`, if the session's `spark.sql.python.filterPushdown.enabled` is on
    at the time of the call. Raises `ImportError` for a PySpark before 4.2, and `CannotRun` if the
    Python of Spark's workers lacks what they need.
    """
    from pyspark.sql.utils import is_remote  # noqa: PLC0415  an extra

    from tms.spark.prerequisites import check_workers  # noqa: PLC0415
    from tms.spark.source import PushdownDataSource, TmsDataSource  # noqa: PLC0415  needs PySpark

    if not is_remote():  # Workers of Spark Connect are on other machines.
        shipped = spark.conf.get("spark.submit.pyFiles", "")
        check_workers(spark.sparkContext.pythonExec, is_shipped=bool(shipped))
    pushes = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true"
    spark.dataSource.register(PushdownDataSource if pushes else TmsDataSource)
