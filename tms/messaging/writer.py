"""The group-commit writer: the requests of all callers, one durable write at a time.

How it works, and what the order of the steps is for:
1. A request is queued, or refused where the queue has no room for it (`WriteQueue`).
   A refusal changes nothing. Nothing queued is dropped.
2. One flush at a time takes what is queued, small requests first (`WriteQueue`).
3. It gives each request its keys: contiguous for a request, ascending within a topic.
4. It makes one durable write of all of them, in the write thread. Meanwhile requests queue up, so
   the busier it is, the more requests share one fsync. Requests that come one at a time need no
   thread (`InlineFlushPolicy`).
5. It lets them take effect in memory, then lets the participants know, who wake pollers, and then
   answers the requests. So what was acknowledged can be read, and nobody reads a key before every
   smaller one of its topic is readable or has failed.
6. If the write fails, every request of the flush fails, and the table may yet turn out to hold it.
   The store finds out before it takes another write. Then the participants read again what they
   have in memory, before anything else is written.

Fulfils `tms.core.services.group_commit.GroupCommit`, where requests and participants are described.
Used from the event loop's thread alone.
"""

import asyncio
import logging
from collections import deque
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tms.core.errors import InternalError, QueueFull, Stopping, TmsError, error_of
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.core.runtime.shares import Shares
from tms.core.services.group_commit import Participant, Write
from tms.core.values.batch import Batch
from tms.core.values.caller import ANYBODY, Caller
from tms.messaging.metrics import MessagingMetrics
from tms.messaging.store_threads import StoreThreads

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

T = TypeVar("T")
Answer = asyncio.Future[Any]
Queued = tuple[Write, Answer]

_SMALL_FLUSH_BYTES = 32 * 1024
_TURNS_BEFORE_SMALL_FLUSH = 3
"""Turns of the event loop after a flush in which those just answered can ask again, before a next
one that would be small. That costs nearly the same for thirty requests as for one: with 32
connections it makes flushes of 30 small requests instead of 5, for a seventh less processor time a
request. Large requests are better received while others are written. A request that finds nothing
under way waits for one turn."""

_LOOK_AGAIN_S = 0.02
"""How long after the store was behind the writer looks again, if only large requests wait."""

_IN_A_ROW = 4
"""Few: also a good disk is slow once in a hundred times, and then as quick as before."""
_QUICK_S = 0.001
"""Where a disk takes longer, the changes of threads are a small part of it."""
_THREAD_EVERY = 32
"""Each so many flushes the write thread has one; that costs less than a hundredth of the time."""

_log = logging.getLogger(__name__)

LARGE_BYTES = 1024 * 1024
"""From this size on a request is large: writing it takes milliseconds, so it gains nothing by
sharing a flush with others."""

HALF_FROM_BYTES = 256 * 1024
"""From this size on a flush takes no more than half of the requests that there are. With all of
them in one, callers wait for the disk and then the disk for callers; so the next half is received
while one is written: a fifth more messages/s with 32 connections that publish 100 at a time."""


class WriteQueue(Generic[T]):
    """The requests that wait, by size, and the choice of those that one flush takes.

    Small requests go first, in the order in which they came, then one large request at most. While
    small requests wait, every second flush takes no large one. So a small request waits for one
    large request at most, however many there are, and a large one for two flushes of small ones for
    each large one before it. The writer may hold large requests back for as long as the store is
    behind.

    There is room for so many requests, and bytes, and for one that is larger alone. Of both, each
    principal has its share.

    Requests that are queued at the same time have no order among each other: a caller that needs
    one waits for the answer.
    """

    def __init__(self, limits: Limits) -> None:
        """Have room for what limits say, and a flush take no more once it is over theirs."""
        self._flush_bytes_max = limits.flush_bytes_max
        self._small: deque[tuple[T, int, str | None]] = deque()
        self._large: deque[tuple[T, int, str | None]] = deque()
        self._requests = Shares(limits.queue_requests_max)
        self._bytes = Shares(limits.queue_bytes_max)
        self._took_large = False
        """Whether the last flush took a large request."""

    def __len__(self) -> int:
        return self._requests.used

    @property
    def size_bytes(self) -> int:
        """How many bytes wait."""
        return self._bytes.used

    def has_room(self, size_bytes: int, sharer: str | None) -> bool:
        """Whether a request may be queued, of somebody who has a share, or None."""
        # Alone it may be over the bound by itself: it would never fit.
        is_alone = not self._requests.used
        return is_alone or (
            self._requests.room(sharer) > 0 and self._bytes.room(sharer) >= size_bytes
        )

    def add(self, request: T, size_bytes: int, sharer: str | None = None) -> None:
        """Queue a request."""
        queue = self._small if size_bytes < LARGE_BYTES else self._large
        queue.append((request, size_bytes, sharer))
        self._requests.add(sharer)
        self._bytes.add(sharer, size_bytes)

    @property
    def has_large(self) -> bool:
        """Whether a large request waits."""
        return bool(self._large)

    def take(self, outstanding: int, *, with_large: bool = True) -> list[T]:
        """Take what one flush writes; nothing if only large requests wait and none may be taken.

        `outstanding` is how many requests there were at the end of the last flush: those it
        answered, and those that waited.
        """
        taken: list[tuple[T, int, str | None]] = []
        size = 0
        half = (max(outstanding, len(self)) + 1) // 2
        small = self._small
        while small and size < self._flush_bytes_max:
            if size >= HALF_FROM_BYTES and len(taken) >= half:
                break
            taken.append(small.popleft())
            size += taken[-1][1]
        is_full = taken and (self._took_large or size >= self._flush_bytes_max)
        self._took_large = with_large and self.has_large and not is_full
        if self._took_large:
            taken.append(self._large.popleft())
        sizes: dict[str | None, list[int]] = {}
        for _, request_bytes, sharer in taken:
            sizes.setdefault(sharer, []).append(request_bytes)
        for sharer, of_sharer in sizes.items():
            self._requests.add(sharer, -len(of_sharer))
            self._bytes.add(sharer, -sum(of_sharer))
        return [request for request, _, _ in taken]


class InlineFlushPolicy:
    """Says whether the event loop writes a flush itself, instead of the write thread.

    A flush in the write thread needs two changes of threads. That is a fifth of the time of a
    single publish. So if requests come one at a time, the loop writes by itself. The risk is that
    everything else waits if the disk is slow once. So the loop does it only

    1. if the loop is the server's. In an application's loop other work would wait at each publish;
    2. if the store is in this process. A remote store may be gone, and needs long to say so;
    3. after several fast flushes in a row with one request each, and none waiting;
    4. while nobody polls, because a slow write would delay polls;
    5. while the write thread has nothing to do;
    6. but not every 32nd time. Every 32nd flush goes to the write thread all the same, to find out
       whether other requests are waiting.

    After two requests at once, a poll, a failure or a slow write the write thread has the flushes
    again.
    """

    def __init__(self, metrics: MessagingMetrics, *, allowed: bool) -> None:
        """Go by the polls that `metrics` counts; say never where it is not `allowed` at all."""
        self._metrics = metrics
        self._wanted: float = _IN_A_ROW if allowed else float("inf")
        self._in_a_row = 0
        self._polls = 0
        """Parts of polls at the end of the last flush."""

    def has_come(self, requests: int) -> bool:
        """Return whether a flush of so many requests is one more of them."""
        return (
            requests == 1
            and self._in_a_row >= self._wanted
            and self._in_a_row % _THREAD_EVERY != 0
            and self._polls == self._polled()
        )

    def ended(self, requests: int, waiting: int, seconds: float, *, failed: bool) -> None:
        """Note a flush: how many requests it had, how many wait behind it, and what it took."""
        polls = self._polled()
        is_lone = requests == 1 and not waiting and polls == self._polls
        self._in_a_row = self._in_a_row + 1 if is_lone and seconds <= _QUICK_S and not failed else 0
        self._polls = polls

    def _polled(self) -> int:
        return self._metrics.cache_hits + self._metrics.cache_misses


class Writer:
    """Takes requests and writes them in groups."""

    def __init__(
        self,
        tables: "StoreTables",
        threads: StoreThreads,
        clock: Clock,
        *,
        limits: Limits,
        metrics: MessagingMetrics,
        inline_flush: InlineFlushPolicy,
    ) -> None:
        self._tables = tables
        self._participants: list[Participant] = []
        self._threads = threads
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._queue: WriteQueue[Queued] = WriteQueue(limits)
        self._loop = asyncio.get_running_loop()
        self._is_flushing = False
        self._looks_again: asyncio.TimerHandle | None = None
        self._inline_flush = inline_flush
        self._outstanding = 0
        """Requests at the end of the last flush: those it answered, and those that wait."""
        self._stopping = False
        self._drained: asyncio.Future[None] | None = None
        metrics.gauge(
            "queue_requests", "Requests that wait to be written.", lambda: len(self._queue)
        )
        metrics.gauge(
            "queue_bytes", "Bytes that wait to be written.", lambda: self._queue.size_bytes
        )

    def join(self, participant: Participant) -> None:
        """Let `participant` take part from now on."""
        self._participants.append(participant)

    def submit(self, write: Write, caller: Caller = ANYBODY, *, goes_on: bool = False) -> Answer:
        """Queue a request and return the future of its answer. Raises `QueueFull`, `Stopping`.

        One that `goes_on` is a later part of work whose first part was queued.
        """
        if self._stopping:
            raise Stopping
        sharer, size_bytes = caller.sharer, write.size_bytes
        if not goes_on and not self._queue.has_room(size_bytes, sharer):
            self._metrics.rejected_requests += 1
            raise QueueFull(queue_requests=len(self._queue), queue_bytes=self._queue.size_bytes)
        answer: Answer = self._loop.create_future()
        write.on_queued()
        self._queue.add((write, answer), size_bytes, sharer)
        if not self._is_flushing:
            self._is_flushing = True
            self._flush_after(1)
        return answer

    def _flush_after(self, turns: int) -> None:
        """Start a flush after some turns of the event loop; what arrives meanwhile joins it."""
        if turns:
            self._loop.call_soon(self._flush_after, turns - 1)
        else:
            self._flush()

    def _flush(self) -> None:
        """Write what is queued, unless that has to wait."""
        taken = self._queue.take(self._outstanding, with_large=self._may_write_large())
        if taken:
            self._write(taken)
            return
        self._is_flushing = False
        if self._looks_again is None:
            self._looks_again = self._loop.call_later(_LOOK_AGAIN_S, self._flush_if_idle)

    def _write(self, taken: list[Queued]) -> None:
        """Write requests, and answer each of them whatever happens."""
        started = perf_counter()
        added: list[Queued] = []

        def done(_: object, error: BaseException | None) -> None:
            self._written(taken, added, error)
            seconds = perf_counter() - started
            self._metrics.flush_seconds.observe(seconds)
            self._metrics.flush_requests.observe(len(taken))
            self._inline_flush.ended(
                len(taken), len(self._queue), seconds, failed=error is not None
            )
            self._outstanding = len(taken) + len(self._queue)
            self._is_flushing = len(self._queue) > 0
            if self._is_flushing:
                is_small = self._queue.size_bytes < _SMALL_FLUSH_BYTES
                self._flush_after(_TURNS_BEFORE_SMALL_FLUSH if is_small else 0)
            elif self._drained is not None:
                self._drained.set_result(None)

        try:
            batch = self._tables.batch()
            # Behind the batch: it can only be written where the store was writable before this.
            for participant in self._participants:
                participant.before_flush()
            added += self._add(batch, taken)
            for participant in self._participants:
                participant.add_rows(batch)
            if not (self._threads.are_writes_done and self._inline_flush.has_come(len(taken))):
                self._threads.write_then(partial(self._tables.write, batch), done)
                return
            self._metrics.inline_flushes += 1
            self._tables.write(batch)
        except Exception as error:  # whatever happened, the callers must be answered
            done(None, error)
        else:
            done(None, None)

    def _may_write_large(self) -> bool:
        """Whether a large request may be taken: it would hold up all others if the store is behind.

        Small ones hardly add to what the store has to merge.
        """
        return self._stopping or not (self._queue.has_large and self._tables.is_behind())

    def _flush_if_idle(self) -> None:
        """Go on with large requests that had to wait, unless a flush is under way."""
        self._looks_again = None
        if len(self._queue) and not self._is_flushing:
            self._is_flushing = True
            self._flush()

    def _written(
        self, taken: list[Queued], added: list[Queued], error: BaseException | None
    ) -> None:
        """Apply what was written and answer; or let all of it fail."""
        # It is not raised again: it would have this frame, and so all of the requests, in a cycle.
        if error is None:
            error = self._not_shown(added)
        if error is None:
            for write, answer in added:
                if not answer.done():
                    answer.set_result(write.result())
        elif isinstance(error, TmsError):
            self._fail(taken, error)
        elif isinstance(error, Exception):
            _log.error("a flush failed", exc_info=error)
            self._fail(taken, InternalError())
        else:
            raise error
        for write, _ in taken:
            write.release()

    def _not_shown(self, added: list[Queued]) -> Exception | None:
        """Apply what was written; return what went wrong with that."""
        try:
            for write, _ in added:
                write.on_durable()
            for participant in self._participants:
                participant.after_flush()
        except Exception as error:  # whatever happened, the callers must be answered
            return error
        return None

    def _add(self, batch: Batch, taken: list[Queued]) -> list[Queued]:
        """Add the requests to the batch; answer those that can not be carried out any more."""
        now_ms = self._clock.keys_ms()
        added: list[Queued] = []
        for write, answer in taken:
            try:
                write.add_rows(batch, now_ms)
            except TmsError as error:
                _answer(answer, error)
            else:
                added.append((write, answer))
        return added

    def _fail(self, taken: list[Queued], error: TmsError) -> None:
        for participant in self._participants:
            participant.flush_failed()
        for write, answer in taken:
            write.on_failed()
            self._metrics.failed_requests += 1
            # Each its own: an exception that is raised in many places gathers all their traces.
            _answer(answer, error_of(error.problem.code, error.detail))

    async def close(self) -> None:
        """Take no more requests, and return when what is queued is written."""
        self._stopping = True
        self._flush_if_idle()
        if self._is_flushing:
            self._drained = self._loop.create_future()
            await self._drained


def _answer(answer: Answer, error: TmsError) -> None:
    """Fail one request, unless its caller has gone."""
    if not answer.done():
        # Its traceback leads to the whole flush, and so to the answer, which has it: a cycle.
        answer.set_exception(error.with_traceback(None))
