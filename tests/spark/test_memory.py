"""The memory of a task does not grow with the amount that it reads or writes."""

import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest

import tms
from tms.spark.columns import DEFAULT_SCHEMA, arrow_schema
from tms.spark.options import batch_read, batch_write
from tms.spark.reader import BatchReader
from tms.spark.writer import BatchWriter

PAYLOAD = b"x" * 1000
ROWS_AT_ONCE = 1000
SMALL, TIMES = 20_000, 4
"""Rows of the small topic, a few blocks; the large topic has `TIMES` as many."""
MARGIN = 1.3

pytestmark = pytest.mark.slow


class Watch:
    """The highest memory use of Arrow and Python in a number of samples."""

    def __init__(self) -> None:
        self._before = pa.total_allocated_bytes()
        self.most_arrow = 0

    def look(self) -> None:
        self.most_arrow = max(self.most_arrow, pa.total_allocated_bytes() - self._before)

    def most(self) -> int:
        return self.most_arrow + tracemalloc.get_traced_memory()[1]


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def most_held(options: dict[str, str], rows: int) -> int:
    """Write this number of rows in one task, read them in one; return the highest memory use."""
    tracemalloc.reset_peak()
    watch = Watch()

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(rows // ROWS_AT_ONCE):
            yield pa.record_batch({"payload": pa.array([PAYLOAD] * ROWS_AT_ONCE, pa.binary())})
            watch.look()

    writer = BatchWriter(batch_write(options), ["payload"])
    writer.commit([writer.write(batches())])
    wanted = {"url": options["url"], "namespace": options["namespace"], "minPartitions": "1"}
    read = batch_read({**wanted, "subscribe": options["topic"]})
    reader = BatchReader(read, arrow_schema(DEFAULT_SCHEMA))
    found = 0
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += batch.num_rows
            watch.look()
    assert found == rows
    return watch.most()


def test_a_task_holds_no_more_for_a_larger_topic(
    client: tms.Client, options: dict[str, str]
) -> None:
    # Chance decides how many blocks are read ahead of a task. The same number of samples at small
    # topics as at the large one gives chance the same influence in both.
    names = [f"small-{number}" for number in range(TIMES)]
    for name in ("first", *names, "large"):
        client.topic(name).create()
    most_held({**options, "topic": "first"}, ROWS_AT_ONCE)  # from here on, imports are in memory

    small = max(most_held({**options, "topic": name}, SMALL) for name in names)
    large = most_held({**options, "topic": "large"}, TIMES * SMALL)

    assert large < MARGIN * small
