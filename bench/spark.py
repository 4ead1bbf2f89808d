"""Topics in Spark: read, written and copied, compared with Spark's own limit in the same run.

The limit is a Python data source that returns, or accepts, the same rows without a server: the
difference is the cost of TMS. A session of two threads and the server share the machine.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import tms
from bench import spark_typed
from bench.rounds import Effort
from bench.servers import Server, tms_server
from bench.table import Table, mebibytes, rate, share
from tms.spark import register
from tms.spark.columns import DEFAULT_SCHEMA
from tms.spark.rows import TYPES

ROWS = 1_000_000
ROWS_AT_ONCE = 10_000
PARTITIONS = 4
PAYLOAD = b"x" * 100
LATENCIES = 60
GROWTH = 10
_WAIT_S_MAX = 120.0
_JAVA = "-XX:+UseSerialGC"


class MemorySource(DataSource):
    """Returns `rows` rows from the workers' memory; counts the rows that are written."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "in_memory"

    def schema(self) -> StructType:
        """Return the columns, those of a topic."""
        return DEFAULT_SCHEMA

    def reader(self, schema: StructType) -> "MemoryReader":  # noqa: ARG002
        """Return the reader."""
        return MemoryReader(int(self.options["rows"]))

    def writer(self, schema: StructType, overwrite: bool) -> "MemoryWriter":  # noqa: ARG002, FBT001
        """Return the writer."""
        return MemoryWriter()


class MemoryReader(DataSourceReader):
    """Returns one batch of rows repeatedly."""

    def __init__(self, rows: int) -> None:
        """Return `rows` rows."""
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Distribute the rows."""
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield a partition's rows."""
        values: dict[str, object] = {
            "topic": "bench",
            "message_id": "0" * 40,
            "timestamp": 1_700_000_000_000_000,
            "seq": 1,
            "payload": PAYLOAD,
        }
        columns = [pa.repeat(pa.scalar(values[n], TYPES[n]), ROWS_AT_ONCE) for n in values]
        schema = pa.schema([(name, TYPES[name]) for name in values])
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for _ in range(self._rows // PARTITIONS // ROWS_AT_ONCE):
            yield batch


class MemoryWriter(DataSourceArrowWriter):
    """Accepts rows and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Accept a partition's rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


def _session() -> SparkSession:
    submit = f'--driver-java-options "{_JAVA}" pyspark-shell'
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": submit}
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(Path(__file__).parents[1])}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    spark.dataSource.register(MemorySource)
    return spark


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _fill(url: str, topic: str, rows: int) -> None:
    with tms.connect(url) as client, ThreadPoolExecutor(4) as threads:
        client.topic(topic).create()
        runs = range(rows // ROWS_AT_ONCE)
        list(threads.map(lambda _: client.topic(topic).publish([PAYLOAD] * ROWS_AT_ONCE), runs))


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure reading, writing and copying, and print the figures."""
    spark = _session()
    table = Table("Spark, 100 B messages", ["what", "TMS", "Spark alone", "share", "server CPU"])
    with tms_server(folder / "data") as server:
        _fill(server.url, "small", ROWS)
        _throughput(spark, table, effort, server)
        spark_typed.measure(spark, server, effort.rounds, _seconds, _consume)
        _latency(spark, table, server.url)
        _memory(spark, server)
    spark.stop()


def _throughput(spark: SparkSession, table: Table, effort: Effort, server: Server) -> None:
    options = {"url": server.url, "minPartitions": str(PARTITIONS)}

    def read() -> DataFrame:
        return spark.read.format("tms").options(**options, subscribe="small").load()

    def memory() -> DataFrame:
        return spark.read.format("in_memory").option("rows", str(ROWS)).load()

    def write(frame: DataFrame, target: str, **more: str) -> None:
        frame.write.format(target).mode("append").options(**more).save()

    with tms.connect(server.url) as client:
        client.topic("target").create()
    pairs: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("read", lambda: _consume(read()), lambda: _consume(memory())),
        (
            "write, exactly once",
            lambda: write(memory(), "tms", url=server.url, topic="target"),
            lambda: write(memory(), "in_memory"),
        ),
    ]
    for name, ours, alone in pairs:
        ours()
        alone()
        cpu_s = server.cpu_s()
        mine = [_seconds(ours) for _ in range(effort.rounds)]
        cpu_s = (server.cpu_s() - cpu_s) / effort.rounds
        other = [_seconds(alone) for _ in range(effort.rounds)]
        mine_s, other_s = median(mine), median(other)
        table.row(
            f"{name}, rows/s",
            rate(ROWS / mine_s),
            rate(ROWS / other_s),
            share(other_s, mine_s),
            f"{cpu_s:.1f} s",
        )


def _latency(spark: SparkSession, table: Table, url: str) -> None:
    """Measure the time from a publish until the message is read in a stream's target topic."""
    with tms.connect(url) as client, tempfile.TemporaryDirectory() as checkpoint:
        source, sink = client.topic("from"), client.topic("to")
        source.create()
        sink.create()
        options = {"url": url, "subscribe": "from", "startingOffsets": "earliest"}
        stream = spark.readStream.format("tms").options(**options).load()
        writer = stream.select("payload").writeStream.format("tms").options(url=url, topic="to")
        query = writer.option("checkpointLocation", checkpoint).start()
        arrived = sink.follow(committed=True)
        latencies: list[float] = []
        while len(latencies) < LATENCIES:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            begin = time.perf_counter()
            source.publish(b"%d" % len(latencies))
            next(arrived)
            latencies.append(time.perf_counter() - begin)
        query.stop()
    warm = sorted(latencies[5:])
    table.row("publish to sink, median", f"{median(warm):.2f} s", "", "", "")
    table.row("publish to sink, 95 %", f"{warm[int(len(warm) * 0.95)]:.2f} s", "", "", "")


def _memory(spark: SparkSession, server: Server) -> None:
    """Measure the most memory of a read, in the server and in Python workers, by topic."""
    _fill(server.url, "large", GROWTH * ROWS)
    table = Table("Memory of a read, at most", ["topic", "server", "workers"])
    for topic in ("small", "large"):
        options = {"url": server.url, "minPartitions": "2", "subscribe": topic}
        frame = spark.read.format("tms").options(**options).load()
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(_consume, frame)
            most = {"server": 0, "workers": 0}
            while not reading.done():
                anonymous = server.memory().get("RssAnon", 0)
                most["server"] = max(most["server"], anonymous)
                most["workers"] = max(most["workers"], _largest_worker())
                time.sleep(0.1)
            reading.result()
        table.row(topic, mebibytes(most["server"]), mebibytes(most["workers"]))


def _largest_worker() -> int:
    """Return the memory of the largest of Spark's Python processes."""
    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        try:
            if "pyspark.daemon" in " ".join(process.cmdline()):
                sizes.append(process.memory_info().rss)
        except psutil.Error:
            continue
    return max(sizes)
