"""Spark sessions for jobs: on this machine, or as `spark-submit` configured them."""

import os
import sys

from pyspark.sql import SparkSession

from tms.spark import register
from tms.spark.options import connection_to
from tms.spark.server import SparkServer

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Present in the environment if spark-submit started this process."""
ANSWER_S_MAX = 5.0
"""If the server is unavailable for longer, this is reported before Spark starts."""


def open_session(
    name: str, master: str | None = None, url: str | None = None, **options: str
) -> SparkSession:
    """Return a session with `format("tms")`, under a name for monitoring.

    `master` is Spark's; None means this machine, unless spark-submit chose another. A new session
    on this machine gets suitable settings (`for_one_machine`). Times are UTC. `url` is the server
    to read or write, and `options` has further options of its connection (`tms.tokenFile`): the
    server is checked first. Raises `CannotRun` if not, or if the Python of Spark's workers cannot,
    `Unavailable` for a server that does not answer, `Unauthenticated`, and `ValueError` for files
    that cannot be used.
    """
    if url is not None:
        connection = connection_to({"url": url, **options}, retry_for_s=ANSWER_S_MAX)
        with SparkServer(connection) as server:
            server.check_arrow()
    # Otherwise Spark starts its workers with python3, whichever that is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None or SUBMITTED not in os.environ:
        master = master or "local[*]"
        builder = builder.master(master).config("spark.ui.showConsoleProgress", "false")
        # An existing session was configured by its creator.
        if master.partition("[")[0] == "local" and SparkSession.getActiveSession() is None:
            for option, value in for_one_machine(os.cpu_count() or 1).items():
                builder = builder.config(option, value)
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


LOOPBACK = "127.0.0.1"


def for_one_machine(cores: int) -> dict[str, str]:
    """Return settings for a session whose tasks are all threads of one process.

    Spark's defaults are for clusters. They split all groups and joins into 200 parts, with a state
    store for each part of a stream: a count of six words took a minute.
    """
    return {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
    }
