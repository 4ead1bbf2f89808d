"""Threads that work on regions, for one thread that collects their results.

Results wait in a short queue, so the threads stop if nobody collects them. The last result of a
worker is its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue, SimpleQueue
from threading import Event, Thread

from cleanup.hbase.search import InvalidRows
from cleanup.hbase.worker import Worker
from cleanup.ranges import Step
from tms.core.runtime.repeatable import repeatable

_PLACES_A_THREAD = 2
_LOOK_S = 0.1
"""How often a waiting thread checks whether to end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker has done its region, or failed on the way."""

    failure: Exception | None


Event_ = tuple[Worker, Step | InvalidRows | Ended]


class Crew:
    """Some threads; `close` ends them."""

    def __init__(self, size: int) -> None:
        """Start as many threads."""
        self._tasks: SimpleQueue[Worker | None] = SimpleQueue()
        self._done: Queue[Event_] = Queue(size * _PLACES_A_THREAD)
        self._closing = Event()
        self._threads = [
            Thread(target=self._run, name=f"tms-prune-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, worker: Worker) -> None:
        """Let a thread do the region of `worker`, as soon as one is free."""
        self._tasks.put(worker)

    def next(self, timeout_s: float) -> Event_ | None:
        """Return the next result, None after `timeout_s` without one."""
        try:
            return self._done.get(timeout=timeout_s)
        except Empty:
            return None

    def close(self) -> None:
        """End the threads after their current steps. Blocks until then."""
        self._closing.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._closing.is_set() and (worker := self._tasks.get()) is not None:
            steps = worker.steps()
            try:
                failure = self._take(worker, steps)
            finally:
                steps.close()
            self._put(worker, Ended(failure))

    def _take(self, worker: Worker, steps: Iterator[Step | InvalidRows]) -> Exception | None:
        """Do the steps; return the error that stopped them, if any."""
        try:
            with repeatable():
                for step in steps:
                    if not self._put(worker, step):
                        return None
        except Exception as error:  # the pass decides what to do about it
            return error
        return None

    def _put(self, worker: Worker, done: Step | InvalidRows | Ended) -> bool:
        """Hand over a result; return False if nobody collects results."""
        while not self._closing.is_set():
            try:
                self._done.put((worker, done), timeout=_LOOK_S)
            except Full:
                continue
            return True
        return False
