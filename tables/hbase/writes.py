"""Batches for HBase: runs of puts or of deletes of one table, one after the other.

A batch is not atomic. Its runs are carried out in the order in which they were added, each in calls
of bounded size. Puts of messages, payloads, positions and groups, on which no other rows rely, join
an earlier run of their table, so that many requests make few calls. Rows of one call in one region
become visible together. The newest rows of a topic are in one region, because they come after every
point where its region was split. So at any moment, and after any crash, a batch has written the
first n rows of each topic and run, and no others; and no row of a run exists before all rows of the
earlier runs.

The gateway carries out the deletes of a call after its puts, and its times are in milliseconds: a
put in the same millisecond as a delete of its row stays invisible. Runs and `Deleted` prevent that.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any

from Hbase_thrift import BatchMutation, Mutation

from tables.hbase.layout import COLUMN, Salt
from tables.keys import topic_start
from tables.store import GROUP, MESSAGE, PAYLOAD, SUBSCRIPTION, Row

_CALL_ROWS = 5000
_CALL_BYTES = 8 * 1024 * 1024
_SAME_TIME_S = 0.003
_JOINED = frozenset({MESSAGE, PAYLOAD, SUBSCRIPTION, GROUP})


@dataclass(slots=True)
class Run:
    """Puts, or deletes, of rows of one table. No row is in it twice."""

    table: str
    is_delete: bool
    rows: dict[bytes, bytes] = field(default_factory=dict)
    """By HBase's key; the value of a delete is empty."""

    @property
    def is_one_call(self) -> bool:
        """Whether one call of the gateway has room for all rows."""
        rows = self.rows
        return len(rows) <= _CALL_ROWS and _size_of(rows) < _CALL_BYTES


class HBaseBatch:
    """Runs that belong together, and how often a write had failed when the batch was made."""

    def __init__(
        self, salts: dict[str, Salt], failures: int = 0, *, is_durable: bool = True
    ) -> None:
        self.failures = failures
        self._is_durable = is_durable
        self._is_whole = False
        self.runs: list[Run] = []
        self._salts = salts

    def require_atomic(self) -> None:
        """Make the batch atomic, also across a crash."""
        self._is_whole = True

    @property
    def needs_intent(self) -> bool:
        """Whether a crash may leave a part of the batch that no reader may see.

        That is also so if the puts of a table need several calls: a call may end within a request.
        """
        if self._is_whole:
            return len(self.runs) > 1 or any(len(run.rows) > 1 for run in self.runs)
        return self._is_durable and not all(run.is_delete or run.is_one_call for run in self.runs)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Add a put."""
        self.put_rows(table, ((key, value),))

    def put_rows(
        self, table: str, rows: Iterable[Row], prefix: bytes = b"", start: bytes = b""
    ) -> None:
        """Add a put for each key, after `prefix`, and value, after `start`."""
        topic, salt = None, b""
        run = self._run(table, is_delete=False)
        for end, value in rows:
            key = prefix + end
            if topic is None or not key.startswith(topic):
                topic, salt = self._bucket(table, key)
            row = salt + key
            if row in run.rows:
                run = self._begin(table, is_delete=False)
            run.rows[row] = start + value

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete."""
        self.delete_rows(table, (key,))

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key."""
        topic, salt = None, b""
        rows = self._run(table, is_delete=True).rows
        for key in keys:
            if topic is None or not key.startswith(topic):
                topic, salt = self._bucket(table, key)
            rows[salt + key] = b""

    def _bucket(self, table: str, key: bytes) -> tuple[bytes | None, bytes]:
        """Return the byte of a key's bucket, and the start of all keys that share it, if known."""
        start = topic_start(key)
        is_topic = start.count(b":") > 1
        return start if is_topic else None, self._salts[table].of(key)

    def _run(self, table: str, *, is_delete: bool) -> Run:
        """Return the last run, or one that can grow, if it is of that kind; else a new one."""
        for run in reversed(self.runs):
            if run.table == table and run.is_delete == is_delete:
                return run
            if run.is_delete or is_delete or not {run.table, table} <= _JOINED:
                break
        return self._begin(table, is_delete=is_delete)

    def _begin(self, table: str, *, is_delete: bool) -> Run:
        self.runs.append(Run(table, is_delete))
        return self.runs[-1]


def parts_of(run: Run) -> Iterator[dict[bytes, bytes]]:
    """Yield the rows of `run` in parts, each for one call of the gateway. Do not change them."""
    if run.rows and run.is_one_call:
        yield run.rows
        return
    rows = iter(run.rows.items())
    while part := dict(islice(rows, 1)):
        size = _size_of(part)
        for row, value in islice(rows, _CALL_ROWS - 1):
            part[row] = value
            size += len(row) + len(value)
            if size >= _CALL_BYTES:
                break
        yield part


def _size_of(rows: Mapping[bytes, bytes]) -> int:
    return sum(map(len, rows)) + sum(map(len, rows.values()))


def mutations_of(run: Run, part: dict[bytes, bytes]) -> list[Any]:
    """Return the gateway's mutations for a part of `run`."""
    if run.is_delete:
        delete = [Mutation(True, COLUMN, None, True)]
        return [BatchMutation(row, delete) for row in part]
    return [
        BatchMutation(row, [Mutation(False, COLUMN, value, True)]) for row, value in part.items()
    ]


class Deleted:
    """The rows deleted in the last milliseconds, after which they may be put again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest: list[tuple[float, str, frozenset[bytes]]] = []

    def add(self, table: str, rows: Iterable[bytes]) -> None:
        """Record rows whose deletion has just been answered."""
        now = time.monotonic()
        with self._lock:
            self._latest = [each for each in self._latest if now - each[0] < _SAME_TIME_S]
            self._latest.append((now, table, frozenset(rows)))

    def wait(self, table: str, rows: Iterable[bytes]) -> None:
        """Wait until a put of these rows is later than their deletion."""
        with self._lock:
            latest = self._latest
        if not latest:
            return
        to_put = set(rows)
        for when, of_table, deleted in latest:
            left_s = when + _SAME_TIME_S - time.monotonic()
            if left_s > 0 and of_table == table and not to_put.isdisjoint(deleted):
                time.sleep(left_s)
