"""Where lines of the audit go: by a thread to a file or the log, by a task to a topic.

Each has a queue of its own, so that one that hangs keeps nothing from the others. What cannot be
written is lost and counted; the server goes on.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from tms.core.clock import Clock
from tms.core.errors import Unavailable
from tms.core.supervision import supervised
from tms.security.audit import QUEUE_MAX, Audit, Drops
from tms.security.audit_file import AuditFile

BATCH_MAX = 1_000
CLOSE_S_MAX = 5.0
RETRY_S = 1.0
_FULL = f"{QUEUE_MAX} wait to be written"

audit_log = logging.getLogger("tms.audit")

Publish = Callable[[list[bytes]], Awaitable[None]]


def open_audit(file: str, clock: Clock, publish: Publish | None = None) -> Audit:
    """Return an audit to a file, or to the log if there is none, and by `publish` to a topic.

    It is called in the event loop that uses it. Raises `OSError` if the file cannot be opened.
    """
    drops = Drops(clock)
    written = WriterThread(AuditFile(file) if file else AuditLog(), drops)
    published = [] if publish is None else [Publisher(publish, drops)]
    return Audit([written, *published], clock, drops)


class Sink(Protocol):
    """What lines are written to, from one thread."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines. Raises `OSError`."""
        ...

    def reopen(self) -> None:
        """Open it anew before the next writing. Called from any thread."""
        ...

    def close(self) -> None:
        """Write no more."""
        ...


class AuditLog:
    """The logger `tms.audit`."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Log each line as information."""
        for line in lines:
            audit_log.info("%s", line.decode("ascii").rstrip("\n"))

    def reopen(self) -> None:
        """Do nothing: it is the log's business."""

    def close(self) -> None:
        """Do nothing."""


class WriterThread:
    """Writes lines in a thread of its own, so that a slow disk holds up nobody."""

    def __init__(self, sink: Sink, drops: Drops) -> None:
        """Write to `sink`, which it closes; what that raises is told, and its lines are lost."""
        self._sink = sink
        self._drops = drops
        self._lines: deque[bytes] = deque()
        self._is_closing = False
        self._has_news = threading.Condition()
        # Not waited for at the program's end: where a disk hangs, it would never end.
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Take a line; if there is no room it is lost."""
        with self._has_news:
            has_room = len(self._lines) < QUEUE_MAX and not self._is_closing
            if has_room:
                self._lines.append(line)
                self._has_news.notify()
        if not has_room:
            self._drops.add(1, _FULL)

    def reopen(self) -> None:
        """Open anew what may have been moved away, before the next writing."""
        self._sink.reopen()

    async def close(self) -> None:
        """Write what was taken; what takes over `CLOSE_S_MAX` seconds is lost."""
        with self._has_news:
            self._is_closing = True
            self._has_news.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_S_MAX)
        with self._has_news:
            left = len(self._lines)
            self._lines.clear()
        if left:
            self._drops.add(left, f"they could not be written in {CLOSE_S_MAX} s at the end")

    def _run(self) -> None:
        while lines := self._next():
            try:
                self._sink.write(lines)
            except Exception as error:  # whatever it is, the server goes on without them
                self._drops.add(len(lines), f"{type(error).__name__}: {error}")
        self._sink.close()

    def _next(self) -> list[bytes]:
        """Wait for lines and return them; none at the end."""
        with self._has_news:
            while not self._lines and not self._is_closing:
                self._has_news.wait()
            return [self._lines.popleft() for _ in range(min(BATCH_MAX, len(self._lines)))]


class Publisher:
    """Publishes lines, by a task of the event loop that it is made in."""

    def __init__(self, publish: Publish, drops: Drops) -> None:
        """Publish by `publish`. If it raises `Unavailable` it is called again, later."""
        self._publish = publish
        self._drops = drops
        self._lines: deque[bytes] = deque()
        self._has_news = asyncio.Event()
        self._is_closing = False
        self._task = supervised("publishing the audit", self._run)

    def put(self, line: bytes) -> None:
        """Take a line; if there is no room it is lost."""
        if len(self._lines) >= QUEUE_MAX or self._is_closing:
            self._drops.add(1, f"{_FULL} to the topic")
            return
        self._lines.append(line)
        self._has_news.set()

    def reopen(self) -> None:
        """Do nothing: a topic is not moved away."""

    async def close(self) -> None:
        """Publish what was taken; what takes over `CLOSE_S_MAX` seconds is lost."""
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
        except Exception as error:  # whatever it is, the server goes on without them
            self._drops.add(len(lines), f"the topic: {type(error).__name__}: {error}")
        for _ in lines:
            self._lines.popleft()
