"""The destinations of audit lines: a thread writes to a file or the log, a task to a topic.

Each has its own queue, so one that hangs does not delay the others. Lines that cannot be written
are lost and counted, and the server continues.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from logging.handlers import QueueHandler, QueueListener
from queue import Empty, Queue

from tms.core.errors import Unavailable
from tms.core.runtime.clock import Clock
from tms.core.runtime.supervision import supervised
from tms.security.audit import QUEUE_MAX, Audit, Drops
from tms.security.audit_file import AuditFile

BATCH_MAX = 1_000
CLOSE_S_MAX = 5.0
RETRY_S = 1.0
_FULL = f"{QUEUE_MAX} wait to be written"

audit_log = logging.getLogger("tms.audit")

Publish = Callable[[list[bytes]], Awaitable[None]]


def open_audit(file: str, clock: Clock, publish: Publish | None = None) -> Audit:
    """Return an audit to a file, or to the log by default, and to a topic by `publish`.

    It is called in the event loop that uses it. Raises `OSError` if the file cannot be opened.
    """
    drops = Drops(clock)
    written = WriterThread(AuditFile(file) if file else AuditLog(), drops)
    published = [] if publish is None else [Publisher(publish, drops)]
    return Audit([written, *published], clock, drops)


class AuditLog(logging.Handler):
    """Passes lines to the logger `tms.audit`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line as information."""
        if audit_log.isEnabledFor(record.levelno):
            audit_log.handle(record)


class WriterThread:
    """Writes lines by a handler in a separate thread, so that a slow disk delays nothing else."""

    def __init__(self, handler: logging.Handler, drops: Drops) -> None:
        """Write by `handler`, which it closes; an error is logged, and its line is lost."""
        self._handler = handler
        self._drops = drops
        self._queue: Queue[logging.LogRecord] = Queue(QUEUE_MAX)
        self._entrance = _Entrance(self._queue, drops)
        # Its thread is a daemon, so the program ends even if a disk hangs.
        self._listener = _Listener(self._queue, handler, drops)
        self._listener.start()
        self._is_closing = False

    def put(self, line: bytes) -> None:
        """Accept a line; if there is no room, it is lost."""
        fields = {"name": audit_log.name, "levelno": logging.INFO, "levelname": "INFO"}
        record = logging.makeLogRecord({**fields, "msg": line.decode("ascii").rstrip("\n")})
        if self._is_closing:
            self._entrance.handleError(record)
        else:
            self._entrance.handle(record)

    async def close(self) -> None:
        """Write the accepted lines; those that take over `CLOSE_S_MAX` seconds are lost."""
        self._is_closing = True
        if await asyncio.to_thread(self._wait_written):
            self._listener.stop()
            self._handler.close()
            return
        unwritten = 0
        with contextlib.suppress(Empty):
            while True:
                self._queue.get_nowait()
                unwritten += 1
        self._listener.enqueue_sentinel()
        self._drops.add(unwritten, f"they could not be written in {CLOSE_S_MAX} s at the end")

    def _wait_written(self) -> bool:
        done = self._queue.all_tasks_done
        with done:
            return done.wait_for(lambda: not self._queue.unfinished_tasks, CLOSE_S_MAX)


class _Entrance(QueueHandler):
    """Puts lines into the queue, and counts those that do not fit."""

    def __init__(self, queue: "Queue[logging.LogRecord]", drops: Drops) -> None:
        super().__init__(queue)
        self._drops = drops

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  as logging has it
        self._drops.add(1, _FULL)


class _Listener(QueueListener):
    """Writes lines, and counts those that could not be written."""

    def __init__(
        self, queue: "Queue[logging.LogRecord]", handler: logging.Handler, drops: Drops
    ) -> None:
        super().__init__(queue, handler)
        self._drops = drops

    def handle(self, record: logging.LogRecord) -> None:
        """Write a line without the handler's lock, which a hanging disk would hold at exit."""
        for handler in self.handlers:
            try:
                handler.emit(record)
            except Exception as error:  # Whatever the error, the server continues without the line.
                self._drops.add(1, f"{type(error).__name__}: {error}")


class Publisher:
    """Publishes lines in a task of the event loop that creates it."""

    def __init__(self, publish: Publish, drops: Drops) -> None:
        """Publish by `publish`. After `Unavailable` it is called again, later."""
        self._publish = publish
        self._drops = drops
        self._lines: deque[bytes] = deque()
        self._has_news = asyncio.Event()
        self._is_closing = False
        self._task = supervised("publishing the audit", self._run)

    def put(self, line: bytes) -> None:
        """Accept a line; if there is no room, it is lost."""
        if len(self._lines) >= QUEUE_MAX or self._is_closing:
            self._drops.add(1, f"{_FULL} to the topic")
            return
        self._lines.append(line)
        self._has_news.set()

    async def close(self) -> None:
        """Publish the accepted lines; those that take over `CLOSE_S_MAX` seconds are lost."""
        self._is_closing = True
        self._has_news.set()
        await asyncio.wait([self._task], timeout=CLOSE_S_MAX)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._lines:
            self._drops.add(len(self._lines), "they could not be published at the end")
            self._lines.clear()

    async def _run(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            while self._lines:
                await self._publish_some()
            if self._is_closing:
                return

    async def _publish_some(self) -> None:
        lines = [self._lines[index] for index in range(min(BATCH_MAX, len(self._lines)))]
        try:
            await self._publish(lines)
        except Unavailable:
            await asyncio.sleep(RETRY_S)
            return
        except Exception as error:  # Whatever the error, the server continues without them.
            self._drops.add(len(lines), f"the topic: {type(error).__name__}: {error}")
        for _ in lines:
            self._lines.popleft()
