"""Reading topics in Spark with types, compared with reading the raw payloads, in one run."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from pyspark.sql import DataFrame, SparkSession

import tms
from bench.servers import Server
from bench.table import Table, rate, share

ROWS = 1_000_000
_ROWS_AT_ONCE = 10_000
_TOPIC = "typed"
OLD = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"}, {"name": "customer", "type": "string"},
    {"name": "count", "type": "int"}, {"name": "price", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}%s]}"""
NEW = OLD % ', {"name": "note", "type": ["null", "string"], "default": null}'


def _fill(url: str) -> int:
    """Publish values of 100 bytes; return their schema's id."""
    with tms.connect(url) as client, ThreadPoolExecutor(4) as threads:
        topic = client.topic(_TOPIC)
        topic.create()
        value = {"id": "o" * 36, "customer": "c" * 35, "count": 3, "price": 1.5}
        values = [{**value, "at": 1_760_000_000_000_000 + n} for n in range(_ROWS_AT_ONCE)]
        [first, *others] = topic.encode(values, OLD % "")
        runs = range(ROWS // _ROWS_AT_ONCE)
        list(threads.map(lambda _: topic.publish([first, *others]), runs))
        return int.from_bytes(first.payload[1:5], "big")


def measure(
    spark: SparkSession,
    server: Server,
    rounds: int,
    seconds: Callable[[Callable[[], object]], float],
    consume: Callable[[DataFrame], None],
) -> None:
    """Print the rows per second read with types, and their share of the raw rate."""
    schema_id = str(_fill(server.url))

    def read(columns: str = "", **more: str) -> Callable[[], object]:
        reader = spark.read.format("tms").options(
            url=server.url, minPartitions="4", subscribe=_TOPIC, **more
        )
        return lambda: consume((reader.schema(columns) if columns else reader).load())

    ways = {
        "raw": read(),
        "five columns, as written": read(schema=schema_id),
        "six columns, by a later version": read(schema=NEW),
        "one column": read("count INT", schema=schema_id),
    }
    for work in ways.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):  # in turn, so that noise affects all
        for name, work in ways.items():
            taken[name].append(seconds(work))
    table = Table("Spark, Avro values of 100 B", ["read", "rows/s", "of raw"])
    raw_s = median(taken["raw"])
    for name, each in taken.items():
        table.row(name, rate(ROWS / median(each)), share(raw_s, median(each)))
