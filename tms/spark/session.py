"""Spark sessions for jobs: on this machine, or on what `spark-submit` has said."""

import os
import sys

from pyspark.sql import SparkSession

from tms.spark import register

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment where spark-submit started this process."""


def open_session(name: str, master: str | None = None) -> SparkSession:
    """Return a session, under a name for those who watch, that knows `format("tms")`.

    `master` is Spark's; None is this machine, unless spark-submit has said which. Times are UTC.
    """
    # Spark starts its workers with python3 otherwise, whichever that is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None or SUBMITTED not in os.environ:
        builder = builder.master(master or "local[*]")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark
