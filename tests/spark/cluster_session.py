"""A driver on a cluster: reads, writes and streams once, and prints the results.

Its arguments: the master, the server's URL and the namespace, which has a topic `a`.
"""

import sys
import tempfile

from pyspark.sql import SparkSession

from tests.spark.conftest import CONF, JAVA

master, url, namespace = sys.argv[1:]
builder = SparkSession.builder.master(master).appName("on a cluster")
for name, value in CONF.items():
    builder = builder.config(name, value)
builder = builder.config("spark.executor.extraJavaOptions", JAVA)
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
options = {"url": url, "namespace": namespace}

# Nothing is registered here: Spark has to find the format by itself.
rows = spark.read.format("tms").options(**options, subscribe="a", minPartitions="4").load()
rows.orderBy("message_id").write.format("tms").mode("append").options(**options, topic="b").save()
with tempfile.TemporaryDirectory() as checkpoint:
    (
        spark.readStream.format("tms")
        .options(**options, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="2000")
        .load()
        .select("payload")
        .writeStream.format("tms")
        .options(**options, topic="c", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(f"{executors} executors, {rows.count()} rows", flush=True)  # noqa: T201  the test reads it
spark.stop()
