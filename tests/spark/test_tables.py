"""Spark shows our own errors for wrong options and for topics as tables, as early as possible."""

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

import tms

Options = dict[str, str]


@pytest.mark.slow
def test_streams_and_tables_are_refused_in_words_and_views_read(
    spark: SparkSession, client: tms.Client, options: Options, checkpoint: str
) -> None:
    client.topic("orders").create()
    client.topic("orders").publish([b"one", b"two"])
    asked = {**options, "subscribe": "orders"}
    stream = spark.readStream.format("tms").options(**asked)
    with pytest.raises(AnalysisException, match="option=startingOffsets"):
        stream.option("startingOffsets", "oldest").load()
    wrong = spark.readStream.format("tms").options(**asked, endingOffsets="latest").load()
    writer = wrong.writeStream.format("noop").option("checkpointLocation", checkpoint)
    with pytest.raises(StreamingQueryException, match="a stream has no end") as caught:
        writer.trigger(availableNow=True).start().awaitTermination(120)
    said = ", ".join(f"{name} '{text}'" for name, text in asked.items())
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE orders_table USING tms OPTIONS ({said})")
    spark.sql(f"CREATE TEMPORARY VIEW orders_view USING tms OPTIONS ({said})")
    described = spark.sql("DESCRIBE orders_view").collect()
    rows = spark.sql("SELECT payload FROM orders_view ORDER BY message_id").collect()
    spark.catalog.dropTempView("orders_view")

    assert "UnboundLocalError" not in str(caught.value)
    assert [bytes(row.payload) for row in rows] == [b"one", b"two"]
    assert [row.comment for row in described if row.col_name == "topic"] == ["of orders"]
