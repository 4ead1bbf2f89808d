"""Ends a command that runs without end: at SIGTERM, or when its output has no reader left.

Both end it as Ctrl-C does, so that it gives back what it holds. A pipe whose reader has gone fails
only at the next write, which may never happen: so a thread watches it. No handler raises an
`Exception`, because it may interrupt any code, and asyncio, for example, ignores an `OSError` while
it wakes its loop.
"""

import errno
import io
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TERMINATED_EXIT_CODE = 128 + signal.SIGTERM


class _OutputLost(BaseException):
    """Raised by a signal when standard output has no reader left."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise `SystemExit` at SIGTERM, and `BrokenPipeError` when standard output has no reader.

    Only within the block, not after it. Used in the main thread.
    """
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, terminate),
        signal.SIGPIPE: signal.signal(signal.SIGPIPE, _break),
    }
    threading.Thread(target=_watch, name="tms-output", daemon=True).start()
    try:
        yield
    except _OutputLost:
        raise BrokenPipeError(errno.EPIPE, "nobody reads standard output any more") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the command as Ctrl-C does."""
    sys.exit(TERMINATED_EXIT_CODE)


def _break(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _OutputLost


def _watch() -> None:
    try:
        output = sys.stdout.fileno()
    except (io.UnsupportedOperation, ValueError):
        return
    waiting = select.poll()
    waiting.register(output, 0)
    while not waiting.poll():  # only for errors; a file has none
        pass
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGPIPE)
