"""Joins two topics: orders with the payments that came within an hour of them.

    pip install 'tms-messaging[spark]'; python examples/spark/join.py

Needs a server (TMS_URL, http://127.0.0.1:11015 unless set). Both sides are streams; each pair is
published once, in the same transaction as all others of its batch.
"""

import os
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tms
from tms.spark.session import open_session

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")
ORDERS, PAYMENTS, PAID = "example-orders", "example-payments", "example-paid"


def parsed(spark: SparkSession, url: str, topic: str, schema: str) -> DataFrame:
    """Return a topic of JSON objects as columns, with the time they were published."""
    rows = (
        spark.readStream.format("tms")
        .options(url=url, subscribe=topic, startingOffsets="earliest")
        .load()
    )
    fields = f.from_json(f.col("payload").cast("string"), schema)
    return rows.select("timestamp", fields.alias("fields")).select("timestamp", "fields.*")


def run(spark: SparkSession, url: str) -> None:
    """Publish orders and payments, join them, and print the pairs."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as checkpoint:
        for name in (ORDERS, PAYMENTS, PAID):
            client.topic(name).create()
        client.topic(ORDERS).publish(
            [b'{"order": 1, "item": "tea"}', b'{"order": 2, "item": "jam"}']
        )
        client.topic(PAYMENTS).publish([b'{"paid_order": 2, "cents": 340}'])

        orders = parsed(spark, url, ORDERS, "order INT, item STRING")
        payments = parsed(spark, url, PAYMENTS, "paid_order INT, cents INT")
        paid = orders.withWatermark("timestamp", "1 hour").join(
            payments.withWatermark("timestamp", "1 hour").withColumnRenamed("timestamp", "paid_at"),
            f.expr("order = paid_order AND paid_at <= timestamp + INTERVAL 1 HOUR"),
        )
        query = (
            paid.select(f.to_json(f.struct("order", "item", "cents")).alias("payload"))
            .writeStream.format("tms")
            .options(url=url, topic=PAID, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

        for message in client.topic(PAID).poll():
            print(message.payload.decode())
        for name in (ORDERS, PAYMENTS, PAID):
            client.topic(name).delete()


if __name__ == "__main__":
    run(open_session("join"), URL)
