"""How Spark writes to topics: exactly once, in one transaction per batch.

1. A task stores its rows, invisible to readers, under its own write pointer, a checkpoint of the
   batch's transaction. A task that is repeated, or runs twice, uses another write pointer.
2. The driver's commit publishes what the tasks stored, in the order of the partitions, and commits,
   in one step. Only tasks whose results Spark accepted count; nobody ever sees what others stored.
3. The transaction has an owner and a sequence, recorded with the commit: a batch that was committed
   before is a duplicate, and is not stored or not published.

A stream's owner is the query's id, which is in its checkpoint, or `txnAppId` and the topic; the
sequence is the batch's number (`batch_owner.py`). Its tasks find their transaction by these: the
first starts it, the others join. So do two drivers on one checkpoint, and the first to commit wins.
A batch of `df.write` gets its transaction from the driver. A transaction that nobody ends times out
after `transactionTimeout`; later stores are refused.

With `transactional=false` tasks publish at once: at least once, and in any order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from tms.core.errors import TransactionDuplicate, TransactionNotInProgress
from tms.core.services.commits import Stored
from tms.spark.batch_owner import BATCH_ORIGIN, BatchOwner, check_is_last, named_owner, start
from tms.spark.option_types import WriteOptions
from tms.spark.rows import by_topic, check_written, requests_of
from tms.spark.server import SparkServer
from tms.spark.typed.registered import KnownSchema
from tms.spark.typed.schema import written_schema
from tms.spark.typed.writing import TypedMessages, check_typed


@dataclass(frozen=True)
class TaskOutcome(WriterCommitMessage):
    """A task's report to the driver."""

    transaction_id: int | None = None
    """None if there were no rows, or without a transaction."""
    publications: tuple[Stored, ...] = ()
    is_duplicate: bool = False
    """Whether the batch was committed before the task started."""


ByTopic = Callable[[pa.RecordBatch], Iterator[tuple[str, pa.RecordBatch]]]


def known_schema(server: SparkServer, options: WriteOptions) -> KnownSchema | None:
    """Return the schema of rows for one topic; None if untyped, or if rows name their topics.

    Raises `PayloadRefused`, `SchemaRefused`, `TopicNotFound`.
    """
    if options.schema is None or options.topic is None:
        return None
    return written_schema(server.schemas, options.topic, options.schema, options.message)


def _check(options: WriteOptions, columns: list[str], schema: KnownSchema | None) -> None:
    """Raise `InvalidRequest` for columns that cannot be written."""
    if options.schema is None:
        check_written(columns, options.topic)
    else:
        check_typed(columns, options.topic, schema)


def _by_topic(
    server: SparkServer, options: WriteOptions, columns: list[str], schema: KnownSchema | None
) -> ByTopic:
    """Return a function that yields the messages of rows by topic."""
    if options.schema is not None:
        return TypedMessages(
            server.schemas, options.topic, options.schema, options.message, schema
        ).by_topic
    payload = check_written(columns, options.topic)
    return lambda batch: by_topic(batch, payload, options.topic)


class _Task:
    """The messages that one task writes."""

    def __init__(
        self,
        server: SparkServer,
        options: WriteOptions,
        columns: list[str],
        schema: KnownSchema | None,
    ) -> None:
        self._server = server
        self._options = options
        self._by_topic = _by_topic(server, options, columns, schema)

    def publish(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Publish all rows at once."""
        for topic, messages in self._requests(batches):
            self._server.publish(topic, messages)

    def store(
        self, batches: Iterator[pa.RecordBatch], transaction_id: int | None, work: BatchOwner | None
    ) -> TaskOutcome:
        """Store all rows in the given transaction, or in that of the work."""
        publications: dict[str, Stored] = {}
        write_pointer = 0
        for topic, messages in self._requests(batches):
            if transaction_id is None:
                assert work is not None
                transaction_id = start(self._server, self._options, work)
            write_pointer = write_pointer or self._server.checkpoint(transaction_id)
            publications[topic] = self._server.store(topic, messages, write_pointer)
        return TaskOutcome(transaction_id if publications else None, tuple(publications.values()))

    def _requests(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            for topic, messages in self._by_topic(batch):
                for request in requests_of(messages):
                    yield topic, request


def commit(server: SparkServer, messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Publish and commit the tasks' messages; return whether that was done before.

    Raises `TransactionNotInProgress` if the transaction has ended in another way.
    """
    stored = [message for message in messages if isinstance(message, TaskOutcome)]
    ids = {message.transaction_id for message in stored} - {None}
    if any(message.is_duplicate for message in stored):
        abort(server, messages)
        return True
    if len(ids) > 1:
        # The first one timed out while tasks were working: the timeout is too short.
        abort(server, messages)
        raise TransactionNotInProgress(transaction_ids=sorted(map(str, ids)))
    listed = [one for message in stored for one in message.publications]
    for transaction_id in ids:
        assert transaction_id is not None
        try:
            server.commit(transaction_id, listed)
        except TransactionDuplicate:
            abort(server, messages)
            return True
    return False


def abort(server: SparkServer, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort the transactions in which tasks have stored."""
    stored = [message for message in messages if isinstance(message, TaskOutcome)]
    for transaction_id in {message.transaction_id for message in stored} - {None}:
        assert transaction_id is not None
        server.abort(transaction_id)


_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def _of_stream(name: str) -> str | None:
    """Return the stream's properties that Spark passes to a task; None outside a stream."""
    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once. The driver creates it, and the tasks have copies of it."""

    def __init__(self, options: WriteOptions, columns: list[str]) -> None:
        """Start the transaction."""
        self._options = options
        self._columns = columns
        self._transaction_id: int | None = None
        self._done: TransactionDuplicate | None = None
        _check(options, columns, None)
        with SparkServer(options.connection) as server:
            server.check_arrow()
            self._known = known_schema(server, options)
            _check(options, columns, self._known)
            if not options.transactional:
                return
            try:
                self._transaction_id = start(server, options, self._work())
            except TransactionDuplicate as done:
                self._done = done

    def _work(self) -> BatchOwner | None:
        options = self._options
        if options.owner is None:
            return None
        return named_owner(options, options.sequence or 0, BATCH_ORIGIN)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutcome:
        """Store a partition's rows."""
        if self._done is not None:
            query = _of_stream(_QUERY)
            if query is not None:  # In foreachBatch, the version is that of a checkpoint.
                check_is_last(self._done, query=query)
            for _ in iterator:
                pass  # Spark requires that its rows are consumed.
            return TaskOutcome(is_duplicate=True)
        with SparkServer(self._options.connection) as server:
            task = _Task(server, self._options, self._columns, self._known)
            if self._options.transactional:
                return task.store(iterator, self._transaction_id, None)
            task.publish(iterator)
            return TaskOutcome()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the tasks' messages, in the order of the partitions."""
        if self._transaction_id is None:
            return
        with SparkServer(self._options.connection) as server:
            # Even without rows, because the sequence must be recorded.
            commit(server, [*messages, TaskOutcome(self._transaction_id)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Abort the transaction."""
        if self._transaction_id is not None:
            with SparkServer(self._options.connection) as server:
                server.abort(self._transaction_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream; Spark creates one for each task, commit and abort."""

    def __init__(
        self, options: WriteOptions, columns: list[str], schema: KnownSchema | None = None
    ) -> None:
        """Contact no server yet."""
        self._options = options
        self._columns = columns
        self._known = schema
        _check(options, columns, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutcome:
        """Store a partition's rows."""
        with SparkServer(self._options.connection) as server:
            task = _Task(server, self._options, self._columns, self._known)
            if not self._options.transactional:
                task.publish(iterator)
                return TaskOutcome()
            try:
                return task.store(iterator, None, self._work())
            except TransactionDuplicate as done:
                check_is_last(done, checkpoint=self._options.checkpoint)
                for _ in iterator:
                    pass  # Spark requires that its rows are consumed.
                return TaskOutcome(is_duplicate=True)

    def _work(self) -> BatchOwner:
        query, batch = _of_stream(_QUERY), _of_stream(_BATCH)
        assert query is not None, "only a streaming query writes in this way"
        assert batch is not None, "only a streaming query writes in this way"
        if self._options.owner is None:
            return BatchOwner(query, int(batch), query)
        return named_owner(self._options, int(batch), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Publish the tasks' messages, in the order of the partitions."""
        with SparkServer(self._options.connection) as server:
            commit(server, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Abort the batch's transaction."""
        with SparkServer(self._options.connection) as server:
            abort(server, messages)
