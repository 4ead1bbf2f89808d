"""The threads that wait for tables, so that the event loop never does.

One thread writes: one flush at a time, in order. Another one reads, or on HBase several, so that a
poll does not wait for a topic whose region is slow. A call crosses threads once each way. Answers
that are ready together cross together, because each separate crossing wakes the loop, which costs
more than reading a hundred messages from disk. A fast answer waits for others, if more calls are
queued, so that they cross together. A slow one crosses at once.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from tms.core.errors import Stopping

_QUICK_S = 0.001
"""A call that took no longer was served from memory, and so, most likely, will be the next."""
_TOGETHER_MAX = 8
"""How many quick answers of the read thread may wait. Not those of several threads, because one of
them may wait for a server that is gone. Not those of the write thread, because a flush would wait
for the snapshot that is written after it."""

P = ParamSpec("P")
T = TypeVar("T")


OnDone = Callable[[Any, BaseException | None], None]
"""Gets the result of a call, or the exception that it raised."""


class StoreThread:
    """Threads that make calls in the order of the requests, each thread one at a time."""

    def __init__(self, name: str, threads: int, together_max: int = 1) -> None:
        """Start the threads. Call it within a running event loop.

        Up to `together_max` quick answers are delivered together.
        """
        self._together_max = together_max
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[Callable[[], Any], OnDone] | None] = SimpleQueue()
        self._answers: deque[tuple[OnDone, Any, BaseException | None]] = deque()
        self._is_waking = False
        self._closed = False
        self.under_way = 0
        """Calls whose answers were not delivered yet."""
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def call(self, call: Callable[[], Any], on_done: OnDone) -> None:
        """Make `call` in a thread, then `on_done` in the event loop. Raises `Stopping`."""
        if self._closed:
            raise Stopping
        self._calls.put((call, on_done))
        self.under_way += 1

    def future(
        self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> "asyncio.Future[T]":
        """Return the future of what `call` returns. Raises `Stopping` once closed."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self.call(partial(call, *args, **kwargs), partial(_resolve, answer))
        return answer

    def _work(self) -> None:
        while (queued := self._calls.get()) is not None:
            call, on_done = queued
            started = perf_counter()
            try:
                self._answers.append((on_done, call(), None))
            except BaseException as error:  # the caller gets it, whatever it is
                self._answers.append((on_done, None, error))
            if not self._may_wait(perf_counter() - started):
                self._wake()
        self._wake()

    def _wake(self) -> None:
        if self._answers and not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):  # the loop was closed: nobody waits for the answer
                self._loop.call_soon_threadsafe(self._deliver)

    def _may_wait(self, seconds: float) -> bool:
        """Return whether an answer may wait for that of the next queued call."""
        if seconds > _QUICK_S or self._calls.empty():
            return False
        return len(self._answers) < self._together_max

    def _deliver(self) -> None:
        # Cleared before the answers are taken, so that a later answer wakes the loop again.
        self._is_waking = False
        while self._answers:
            on_done, result, error = self._answers.popleft()
            self.under_way -= 1
            on_done(result, error)

    def stop(self) -> None:
        """Accept no more calls; the threads end after those that are queued."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._calls.put(None)

    def close(self) -> None:
        """Stop, and wait until the threads have ended; answers may still be due."""
        self.stop()
        for thread in self._threads:
            thread.join()


def _resolve(answer: "asyncio.Future[T]", result: T, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class StoreThreads:
    """A write thread, and as many read threads as the store can use."""

    def __init__(self, read_threads: int) -> None:
        """Start them. Call it within a running event loop."""
        self._writes = StoreThread("tms-write", 1)
        together_max = _TOGETHER_MAX if read_threads == 1 else 1
        self._reads = StoreThread("tms-read", read_threads, together_max)
        self.write = self._writes.future
        """Makes a call in the write thread after all earlier ones."""
        self.write_then = self._writes.call
        """Makes a call in the write thread, and then another one in the event loop, at once."""
        self.read = self._reads.future
        """Makes a call in a read thread."""

    @property
    def are_writes_done(self) -> bool:
        """Whether the write thread has made all of its calls, and their answers are delivered."""
        return not self._writes.under_way

    async def close(self) -> None:
        """Wait for the calls under way and end the threads. Later calls raise `Stopping`.

        A read may wait for a store that does not answer, and other shards share the loop.
        """
        both = self._writes, self._reads
        for threads in both:
            threads.stop()
        for each in both:
            await asyncio.to_thread(each.close)
