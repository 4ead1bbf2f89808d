"""Counts work in lines of Python that run: the same count each time, on any machine."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Work:
    """The lines that have run so far."""

    lines = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count the lines that this thread runs in functions called within the context.

    The collector pauses in the meantime: finalizers of other tests' objects would count too.
    """
    work, before, collects = Work(), sys.gettrace(), gc.isenabled()

    def trace(_: FrameType, event: str, __: Any) -> Callable[..., Any]:
        if event == "line":
            work.lines += 1
        return trace

    gc.disable()
    sys.settrace(trace)
    try:
        yield work
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()


def lines_of(call: Callable[[], object]) -> int:
    """Return how many lines a call runs."""
    with counted() as work:
        call()
    return work.lines
