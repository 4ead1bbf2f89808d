"""A lock that many threads share, or that one thread has alone.

Closing a LevelDB handle while another thread reads from it crashes the process, so reads share this
lock, and closing holds it alone. A thread that waits to hold it alone goes before later sharers;
sharers that waited in the meantime go before the next exclusive holder.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition, RLock


class SharedLock:
    """Shared by many, or exclusive to one. Not reentrant."""

    def __init__(self) -> None:
        self._lock = RLock()
        """Reentrant: garbage collection may end a forgotten scan in a thread that has the lock."""
        self._changed = Condition(self._lock)
        self._inside = 0
        self._waiting = 0
        self._shut = False
        self._shared = _Shared(self._enter, self._leave)

    def shared(self) -> AbstractContextManager[None]:
        """Share the lock; wait while one thread holds it alone."""
        return self._shared

    def _enter(self) -> None:
        with self._lock:
            if self._shut:
                self._wait_for_opening()
            self._inside += 1

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._shut:
                self._changed.notify_all()

    def _wait_for_opening(self) -> None:
        self._waiting += 1
        try:
            while self._shut:
                self._changed.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone: admit no other thread, and wait until all have left."""
        with self._changed:
            while self._shut or self._waiting:
                self._changed.wait()
            self._shut = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()


class _Shared:
    """A share of the lock. All threads use one object, which makes each read cheaper."""

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()
