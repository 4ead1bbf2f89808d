"""Joins two topics: orders with the payments that arrived within an hour of them.

    scripts/environment spark; .venv/bin/python examples/spark/join.py

Needs a server (TMS_URL, by default http://127.0.0.1:11015). Both sides are streams; each pair is
published once, in the same transaction as all others of its batch.
"""

import os
import tempfile
import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tms
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def parsed(spark: SparkSession, url: str, topic: str, schema: str) -> DataFrame:
    """Return a topic of JSON objects as columns, with the times of their publication."""
    rows = (
        spark.readStream.format("tms")
        .options(url=url, subscribe=topic, startingOffsets="earliest")
        .load()
    )
    fields = f.from_json(f.col("payload").cast("string"), schema)
    return rows.select("timestamp", fields.alias("fields")).select("timestamp", "fields.*")


def run(spark: SparkSession, url: str) -> None:
    """Join orders and payments on three topics of its own, and delete them."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as checkpoint:
        kinds = ("orders", "payments", "paid")
        topics = [client.topic(f"example-{kind}-{uuid.uuid4().hex}") for kind in kinds]
        for topic in topics:
            topic.create()
        orders, payments, paid = topics
        try:
            orders.publish([b'{"order": 1, "item": "tea"}', b'{"order": 2, "item": "jam"}'])
            payments.publish([b'{"paid_order": 2, "cents": 340}'])
            join(spark, url, (orders.name, payments.name), paid.name, checkpoint)
            for message in paid.poll():
                print(message.payload.decode())
        finally:
            for topic in topics:
                topic.delete()


def join(spark: SparkSession, url: str, read: tuple[str, str], to: str, checkpoint: str) -> None:
    """Publish each order of the first topic that has a payment in the second one."""
    orders = parsed(spark, url, read[0], "order INT, item STRING")
    payments = parsed(spark, url, read[1], "paid_order INT, cents INT")
    paid = orders.withWatermark("timestamp", "1 hour").join(
        payments.withWatermark("timestamp", "1 hour").withColumnRenamed("timestamp", "paid_at"),
        f.expr("order = paid_order AND paid_at <= timestamp + INTERVAL 1 HOUR"),
    )
    query = (
        paid.select(f.to_json(f.struct("order", "item", "cents")).alias("payload"))
        .writeStream.format("tms")
        .options(url=url, topic=to, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(open_session("join", url=URL), URL)
