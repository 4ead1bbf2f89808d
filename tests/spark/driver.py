"""A driver in a process of its own: copies a topic to another, through the sink that can die.

Its arguments: the server's URL, the namespace, the checkpoint, and the place to die at, `-` for
none.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.conftest import CONF, MASTER
from tests.spark.crashing import AFTER_COMMIT, BEFORE_COMMIT, VARIABLE, CrashingDataSource
from tms.spark import register

url, namespace, checkpoint, where = sys.argv[1:]
builder = SparkSession.builder.master(MASTER).appName("driver")
for name, value in CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
spark.dataSource.register(CrashingDataSource)
jvm = spark.sparkContext._jvm
assert jvm is not None
pid = jvm.java.lang.ProcessHandle.current().pid()
if where != "-":
    killed = pid if where in (BEFORE_COMMIT, AFTER_COMMIT) else 0
    Path(os.environ[VARIABLE]).write_text(f"{where} {killed}")
options = {"url": url, "namespace": namespace}
source = {**options, "subscribe": "a", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
query = (
    spark.readStream.format("tms")
    .options(**source)
    .load()
    .select("payload")
    .writeStream.format("tms_crashing")
    .options(**options, topic="b", checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print("done", flush=True)  # noqa: T201  the test reads it
spark.stop()
