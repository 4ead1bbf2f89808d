"""Counts words as they arrive: a stream from one topic to another, each result published once.

    scripts/environment spark; .venv/bin/python examples/spark/word_count.py

Needs a server (TMS_URL, by default http://127.0.0.1:11015). A real job runs for ever and keeps its
checkpoint; this one processes the existing messages and deletes its checkpoint.
"""

import os
import tempfile
import uuid

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tms
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def run(spark: SparkSession, url: str) -> None:
    """Count words on two topics of its own, and delete them."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as checkpoint:
        names = [f"example-{kind}-{uuid.uuid4().hex}" for kind in ("sentences", "counts")]
        sentences, counts = (client.topic(name) for name in names)
        sentences.create()
        counts.create()
        try:
            sentences.publish([b"to be or", b"not to be"])
            count(spark, url, sentences.name, counts.name, checkpoint)
            for line in sorted(message.payload.decode() for message in counts.poll()):
                print(line)
        finally:
            sentences.delete()
            counts.delete()


def count(spark: SparkSession, url: str, sentences: str, counts: str, checkpoint: str) -> None:
    """Count each word in one topic's messages, and publish the counts to another topic."""
    read = (
        spark.readStream.format("tms")
        .options(url=url, subscribe=sentences, startingOffsets="earliest")
        .load()
    )
    words = read.select(f.explode(f.split(f.col("payload").cast("string"), " ")).alias("word"))
    query = (
        words.groupBy("word")
        .count()
        .selectExpr("concat(word, ' ', count) AS payload")
        .writeStream.format("tms")
        .options(url=url, topic=counts, checkpointLocation=checkpoint)
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(open_session("word count", url=URL), URL)
