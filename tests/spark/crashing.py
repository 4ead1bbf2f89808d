"""`format("tms_crashing")`: like `format("tms")`, but it dies at a chosen place.

The file that `CRASH_OF_TMS` names has the place, as `WHERE PID`; it is removed first, so that this
happens once. PID is the process to kill: a driver's JVM, or 0 for the process itself.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from tests.waiting import WAIT_S_MAX, wait_until
from tms.spark.options import stream_write
from tms.spark.source import TmsDataSource
from tms.spark.writer import StreamWriter, TaskOutcome

VARIABLE = "CRASH_OF_TMS"
IN_TASK = "in-task"
BEFORE_COMMIT = "before-commit"
AFTER_COMMIT = "after-commit"
WHILE_STORING = "while-storing"


def crash(where: str) -> None:
    """Kill the process that the file names, if this is the place that it names."""
    order = Path(os.environ[VARIABLE])
    try:
        wanted, pid = order.read_text().split()
    except FileNotFoundError:
        return
    if wanted == where:
        order.unlink()
        os.kill(int(pid) or os.getpid(), signal.SIGKILL)
        Event().wait(WAIT_S_MAX)  # until the kill also ends this process


def wait_for_the_test() -> None:
    """Signal that a task is half done, and wait until the test has done its part."""
    order = Path(os.environ[VARIABLE])
    if not order.exists() or not order.read_text().startswith(WHILE_STORING):
        return
    reached = order.with_suffix(".reached")
    reached.touch()
    wait_until(lambda: not order.exists())


class CrashingWriter(StreamWriter):
    """Dies in a task that has stored all its rows, or around the commit."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutcome:
        """Store the rows, wait for the test, and die if this is the place."""

        def watched() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                half = batch.num_rows // 2
                yield batch.slice(0, half)
                wait_for_the_test()
                yield batch.slice(half)

        stored = super().write(watched())
        if stored.publications:
            crash(IN_TASK)
        return stored

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit, and die before or after if this is the place."""
        crash(BEFORE_COMMIT)
        super().commit(messages, batchId)
        crash(AFTER_COMMIT)


class CrashingDataSource(TmsDataSource):
    """The source whose sink dies."""

    @classmethod
    def name(cls) -> str:
        return "tms_crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802
        return CrashingWriter(stream_write(self.options), schema.fieldNames())
