"""Stops a program's workers at SIGTERM, and also calls the program's own handler.

Any number of workers may run at a time. The program's handler, set by `signal.signal` or asyncio,
is called as well, and is restored when the last worker has ended; what it raises, typically
`SystemExit`, is raised then, so that the workers end in order first.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

_stops: dict[object, Callable[[], object]] = {}
_own: Any = None
"""The program's handler, while `_stops` is not empty."""
_raised: BaseException | None = None


@contextmanager
def stopping_at_sigterm(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` in the main thread if SIGTERM arrives within the block.

    In any other thread than the main one this does nothing.
    """
    global _own  # noqa: PLW0603  a process has one handler
    if current_thread() is not main_thread():
        yield
        return
    key = object()
    _stops[key] = stop
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
