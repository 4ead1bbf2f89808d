"""Stops a program's workers at SIGTERM, and also calls the program's own handler.

A second SIGTERM stops them now. It counts if it comes `AGAIN_S` after the first: a supervisor may
send one to a group of processes, and one of them sends it on.

Any number may wait for it at a time. The program's handler, of `signal.signal` or of asyncio, is
called as well, and is the only one again when the last has ended; what it raises, `SystemExit`
above all, is raised then, so that the workers end in order first.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

AGAIN_S = 1.0

_stops: dict[object, "_Stop"] = {}
_own: Any = None
"""The program's handler, while `_stops` is not empty."""
_raised: BaseException | None = None


class _Stop:
    """The calls that stop one worker."""

    def __init__(self, stop: Callable[[], object], stop_now: Callable[[], object]) -> None:
        self._stop = stop
        self._stop_now = stop_now
        self._first_s: float | None = None

    def __call__(self) -> None:
        now_s = monotonic()
        if self._first_s is None:
            self._first_s = now_s
            self._stop()
        elif now_s >= self._first_s + AGAIN_S:
            self._stop_now()


@contextmanager
def stopping_at_sigterm(
    stop: Callable[[], object], stop_now: Callable[[], object]
) -> Iterator[None]:
    """Call `stop` in the main thread if SIGTERM comes within the block, then `stop_now`.

    In any other thread than the main one this does nothing.
    """
    global _own  # noqa: PLW0603  a process has one handler
    if current_thread() is not main_thread():
        yield
        return
    key = object()
    _stops[key] = _Stop(stop, stop_now)
    if len(_stops) == 1:
        _own = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _handle)
    try:
        yield
    finally:
        del _stops[key]
        if not _stops:
            _restore()


def _handle(number: int, frame: FrameType | None) -> None:
    global _raised  # noqa: PLW0603
    for stop in tuple(_stops.values()):
        stop()
    if callable(_own):
        try:
            _own(number, frame)
        except BaseException as error:
            _raised = error


def _restore() -> None:
    global _own, _raised
    if signal.getsignal(signal.SIGTERM) is _handle:  # otherwise the program has set another one
        signal.signal(signal.SIGTERM, signal.SIG_DFL if _own is None else _own)
    error, _own, _raised = _raised, None, None
    if error is not None:
        raise error
