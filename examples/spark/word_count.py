"""Counts words as they come: a stream from one topic to another, each result published once.

    pip install 'tms-messaging[spark]'; python examples/spark/word_count.py

Needs a server (TMS_URL, http://127.0.0.1:11015 unless set). A real job runs for ever and keeps its
checkpoint; this one takes what is there and leaves nothing behind.
"""

import os
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tms
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")
SENTENCES, COUNTS = "example-sentences", "example-counts"


def run(spark: SparkSession, url: str) -> None:
    """Publish sentences, count their words, and print the counts."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as checkpoint:
        for name in (SENTENCES, COUNTS):
            client.topic(name).create()
        client.topic(SENTENCES).publish([b"to be or", b"not to be"])

        sentences = (
            spark.readStream.format("tms")
            .options(url=url, subscribe=SENTENCES, startingOffsets="earliest")
            .load()
        )
        words = sentences.select(
            f.explode(f.split(f.col("payload").cast("string"), " ")).alias("word")
        )
        counts = words.groupBy("word").count()
        query = (
            counts.selectExpr("concat(word, ' ', count) AS payload")
            .writeStream.format("tms")
            .options(url=url, topic=COUNTS, checkpointLocation=checkpoint)
            .outputMode("complete")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

        for line in sorted(message.payload.decode() for message in client.topic(COUNTS).poll()):
            print(line)
        for name in (SENTENCES, COUNTS):
            client.topic(name).delete()


if __name__ == "__main__":
    run(open_session("word count"), URL)
