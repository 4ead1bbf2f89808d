"""Threads for the blocking calls of an event loop, which do not keep the program from ending.

Guarantees: they take calls until `shutdown`, even while the program ends. A `ThreadPoolExecutor`
takes none once the main thread has ended, though other threads may still publish, and since Python
3.12 no thread can be started then: so one idle thread is always kept ready.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

_THREADS_MAX = 16

P = ParamSpec("P")
Result = TypeVar("Result")


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's default executor. asyncio accepts only a `ThreadPoolExecutor`."""

    def __init__(self, name: str, threads_max: int = _THREADS_MAX) -> None:
        """Start one thread of `threads_max`. Each has a name that begins with `name`."""
        super().__init__(max_workers=1)  # its own threads are never started
        self._name = name
        self._threads_max = threads_max
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._state = Lock()
        self._under_way = 0
        self._is_shut_down = False
        self._workers: list[Thread] = []
        self._start_one()

    def _start_one(self) -> None:
        worker = Thread(target=self._work, name=f"{self._name}-{len(self._workers)}", daemon=True)
        worker.start()
        self._workers.append(worker)

    def submit(
        self, fn: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[Result]:
        """Make a call in a thread. Raises `RuntimeError` after `shutdown`."""
        future: Future[Result] = Future()
        with self._state:
            if self._is_shut_down:
                raise RuntimeError("cannot take a call after shutdown")
            self._under_way += 1
            if len(self._workers) <= min(self._under_way, self._threads_max - 1):
                with suppress(RuntimeError):  # the program ends
                    self._start_one()
            self._calls.put(partial(_fulfil, future, partial(fn, *args, **kwargs)))
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # its objects must not stay alive until the next call
            with self._state:
                self._under_way -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  as `Executor` has it
        """End the threads after the calls taken so far; with `wait`, wait for that."""
        with self._state:
            if not self._is_shut_down:
                self._is_shut_down = True
                for _ in self._workers:
                    self._calls.put(None)
        if wait:
            for worker in self._workers:
                worker.join()


def for_future(error: BaseException) -> BaseException:
    """Return an error that asyncio's futures can carry: they refuse `StopIteration`."""
    if not isinstance(error, StopIteration):
        return error
    carried = RuntimeError("what was called raised StopIteration")
    carried.__cause__ = error
    return carried


def _fulfil(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # any error belongs to the caller
        future.set_exception(for_future(error))
    else:
        future.set_result(result)
