"""Spark sessions for jobs: on this machine, or on what `spark-submit` has said."""

import os
import sys

from pyspark.sql import SparkSession

from tms.spark import register
from tms.spark.options import connection_to
from tms.spark.server import SparkServer

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment where spark-submit started this process."""
ANSWER_S_MAX = 5.0
"""A server that is away for longer is told of before Spark is started."""


def open_session(
    name: str, master: str | None = None, url: str | None = None, **options: str
) -> SparkSession:
    """Return a session, under a name for those who watch, that knows `format("tms")`.

    `master` is Spark's; None is this machine, unless spark-submit has said which. A new session on
    this machine is set up for it (`for_one_machine`). Times are UTC. `url` is the server that is to
    be read or written, and `options` more of its connection (`tms.tokenFile`): it is asked first if
    it can be. Raises `CannotRun` if not, or if the Python of Spark's workers cannot, `Unavailable`
    for a server that does not answer, `Unauthenticated`, and `ValueError` for files that cannot be
    used.
    """
    if url is not None:
        connection = connection_to({"url": url, **options}, retry_for_s=ANSWER_S_MAX)
        with SparkServer(connection) as server:
            server.check_arrow()
    # Spark starts its workers with python3 otherwise, whichever that is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None or SUBMITTED not in os.environ:
        master = master or "local[*]"
        builder = builder.master(master).config("spark.ui.showConsoleProgress", "false")
        # One that is there already has been set up by whoever made it.
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
    """Return what a session needs to be quick where all its tasks are threads of one process.

    Spark's own settings are for clusters. It splits whatever it groups or joins into 200 parts, and
    keeps a store of state for each part of a stream: a count of six words took a minute.
    """
    return {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
    }
