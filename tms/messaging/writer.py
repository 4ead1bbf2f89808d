"""The group-commit writer: the requests of all callers, one durable write at a time.

The steps, and the reasons for their order:
1. A request is queued, or refused if the queue has no room for it (`WriteQueue`).
   A refusal changes nothing. A queued request is never dropped.
2. One flush at a time takes queued requests, small ones first (`WriteQueue`).
3. It assigns keys to each request: contiguous for a request, ascending within a topic.
4. It makes one durable write of all of them, in the write thread. In the meantime requests queue
   up, so the busier it is, the more requests share one fsync. Requests that arrive one at a time
   need no thread (`InlineFlushPolicy`).
5. It applies them in memory, then notifies the participants, which wake polls, and then answers the
   requests. So an acknowledged message can be read, and nobody reads a key before every smaller one
   of its topic is readable or has failed.
6. If the write fails, every request of the flush fails, though the table may turn out to hold it.
   The store finds out before it accepts another write. Then the participants reload what they have
   in memory, before anything else is written.

Implements `tms.core.services.group_commit.GroupCommit`, which describes requests and participants.
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
"""Turns of the event loop between a flush and the next small one, in which callers just answered
can send their next request. A flush costs nearly the same for thirty requests as for one: with 32
connections, flushes have 30 small requests instead of 5, for a seventh less processor time per
request. Large requests do not wait, because they are received while others are written. A request
that finds no flush under way waits for one turn."""

_LOOK_AGAIN_S = 0.02
"""The interval at which the writer checks a store that is behind, if only large requests wait."""

_IN_A_ROW = 4
"""Few: even a good disk is slow once in a hundred times, and then as quick as before."""
_QUICK_S = 0.001
"""If a disk takes longer, the thread switches are a small part of the time."""
_THREAD_EVERY = 32
"""One in this number of flushes is the write thread's; that costs less than 1 % of the time."""

_log = logging.getLogger(__name__)

LARGE_BYTES = 1024 * 1024
"""From this size on a request is large: writing it takes milliseconds, so it gains nothing by
sharing a flush with others."""

HALF_FROM_BYTES = 256 * 1024
"""From this size on a flush takes at most half of the outstanding requests. If it took all of them,
callers would wait for the disk and then the disk for callers. This way one half is received while
the other is written: a fifth more messages/s with 32 connections that publish 100 at a time."""


class WriteQueue(Generic[T]):
    """The waiting requests, by size, and the choice of those that one flush takes.

    Small requests go first, in the order of arrival, then at most one large request. While small
    requests wait, every second flush takes no large one. So a small request waits for at most one
    large request, even if many wait. A large request waits for two flushes of small ones for each
    large request before it. The writer may hold large requests back while the store is behind.

    The queue is bounded in requests and bytes; a request larger than the bound is accepted if the
    queue is empty. Each principal has its share of both.

    Requests that are queued at the same time have no order among each other: a caller that needs an
    order waits for the answer.
    """

    def __init__(self, limits: Limits) -> None:
        """Bound the queue, and the size of a flush, by `limits`."""
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
        """The bytes that wait."""
        return self._bytes.used

    def has_room(self, size_bytes: int, sharer: str | None) -> bool:
        """Whether a request may be queued; `sharer` is a principal with a share, or None."""
        # If it is alone, it may exceed the bound: otherwise it would never fit.
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
        """Take the requests of one flush; none if only large ones wait and none may be taken.

        `outstanding` is the number of requests at the end of the last flush: those it answered,
        and those that waited.
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
    """Decides whether the event loop writes a flush itself, instead of the write thread.

    A flush in the write thread needs two thread switches, a fifth of the time of a single publish.
    So if requests arrive one at a time, the loop writes by itself. The risk is that everything else
    waits if the disk is slow once. So the loop does it only

    1. if the loop is the server's: in an application's loop other work would wait at each publish;
    2. if the store is in this process: a remote store may be gone, and take long to report it;
    3. after several fast flushes in a row with one request each, and none waiting;
    4. while nobody polls, because a slow write would delay polls;
    5. while the write thread has nothing to do;
    6. except that every 32nd flush is the write thread's, to find out whether requests are waiting.

    After two requests at once, a poll, a failure or a slow write, flushes go to the write thread
    again.
    """

    def __init__(self, metrics: MessagingMetrics, *, allowed: bool) -> None:
        """Watch the polls that `metrics` counts; the answer is always no unless `allowed`."""
        self._metrics = metrics
        self._required: float = _IN_A_ROW if allowed else float("inf")
        self._in_a_row = 0
        self._polls = 0
        """Parts of polls at the end of the last flush."""

    def is_inline(self, requests: int) -> bool:
        """Return whether the event loop writes a flush of that number of requests."""
        return (
            requests == 1
            and self._in_a_row >= self._required
            and self._in_a_row % _THREAD_EVERY != 0
            and self._polls == self._polled()
        )

    def ended(self, requests: int, waiting: int, seconds: float, *, failed: bool) -> None:
        """Record a flush: its requests, the requests that wait now, and its duration."""
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
        """Requests at the end of the last flush: those it answered, and those that waited."""
        self._stopping = False
        self._drained: asyncio.Future[None] | None = None
        metrics.gauge(
            "queue_requests", "Requests that wait to be written.", lambda: len(self._queue)
        )
        metrics.gauge(
            "queue_bytes", "Bytes that wait to be written.", lambda: self._queue.size_bytes
        )

    def join(self, participant: Participant) -> None:
        """Add a participant to all later flushes."""
        self._participants.append(participant)

    def submit(self, write: Write, caller: Caller = ANYBODY, *, goes_on: bool = False) -> Answer:
        """Queue a request and return the future of its answer. Raises `QueueFull`, `Stopping`.

        With `goes_on`, it is a later part of work whose first part was queued.
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
        """Start a flush after some turns of the loop; requests that arrive by then join it."""
        if turns:
            self._loop.call_soon(self._flush_after, turns - 1)
        else:
            self._flush()

    def _flush(self) -> None:
        """Write the queued requests, unless they have to wait."""
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
            # After the batch was opened, which succeeds only if the store is writable.
            for participant in self._participants:
                participant.before_flush()
            added += self._add(batch, taken)
            for participant in self._participants:
                participant.add_rows(batch)
            if not (self._threads.are_writes_done and self._inline_flush.is_inline(len(taken))):
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
        """Continue with large requests that had to wait, unless a flush is under way."""
        self._looks_again = None
        if len(self._queue) and not self._is_flushing:
            self._is_flushing = True
            self._flush()

    def _written(
        self, taken: list[Queued], added: list[Queued], error: BaseException | None
    ) -> None:
        """Apply the requests that were written and answer them, or fail all of them."""
        # The error is not raised again: it would hold this frame, and so all requests, in a cycle.
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
        """Apply the requests that were written; return the error if that fails."""
        try:
            for write, _ in added:
                write.on_durable()
            for participant in self._participants:
                participant.after_flush()
        except Exception as error:  # whatever happened, the callers must be answered
            return error
        return None

    def _add(self, batch: Batch, taken: list[Queued]) -> list[Queued]:
        """Add the requests to the batch; answer those that can no longer be carried out."""
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
            # Each gets its own: an exception raised in many places collects all their tracebacks.
            _answer(answer, error_of(error.problem.code, error.detail))

    async def close(self) -> None:
        """Accept no more requests, and return when the queued ones are written."""
        self._stopping = True
        self._flush_if_idle()
        if self._is_flushing:
            self._drained = self._loop.create_future()
            await self._drained


def _answer(answer: Answer, error: TmsError) -> None:
    """Fail one request, unless its caller has gone."""
    if not answer.done():
        # Its traceback refers to the flush, and so to the answer, which refers to it: a cycle.

        answer.set_exception(error.with_traceback(None))
