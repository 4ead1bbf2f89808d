"""Waiting until something holds: the only sleeps in tests (tests/structure/test_waiting.py).

A test waits for an event, and asserts the event rather than how long it took. One ceiling bounds
every wait. It is far above what any wait takes on a slow and busy machine, so reaching it means
that the event never happens. The error names what was awaited, and says that time was up.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any, TypeVar, overload

from tests.virtual_loop import VirtualLoop

WAIT_S_MAX = 120.0
_TURNS = 20
_PAUSE_S = 0.005

T = TypeVar("T")


@overload
async def until(condition: Callable[[], Coroutine[Any, Any, T]], what: str | None = None) -> T: ...
@overload
async def until(condition: Callable[[], T], what: str | None = None) -> T: ...
async def until(condition: Callable[[], Any], what: str | None = None) -> Any:
    """Wait until `condition`, a function or coroutine function, is true; return its value.

    Raises AssertionError after `WAIT_S_MAX`, which passes at once on a virtual loop.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_S_MAX
    pauses = chain(repeat(0.0, _TURNS), repeat(_PAUSE_S))  # the first turns do not pause
    while True:
        found = condition()
        found = await found if inspect.isawaitable(found) else found
        if found:
            return found
        assert loop.time() < deadline, _time_is_up(condition, what)
        await asyncio.sleep(next(pauses))


def wait_until(condition: Callable[[], T], what: str | None = None) -> T:
    """Do the same in a thread without an event loop."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := condition()):
        assert time.monotonic() < deadline, _time_is_up(condition, what)
        time.sleep(_PAUSE_S)
    return found


async def turns(count: int = 1) -> None:
    """Let the event loop run `count` times, so that what is ready continues; no time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def passes(seconds: float) -> None:
    """Let time pass on a virtual loop, on which this takes no real time."""
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    assert is_virtual, "a real loop would wait: let a test wait for an event, by until"
    await asyncio.sleep(seconds)


@asynccontextmanager
async def in_time(what: str | None = None) -> AsyncIterator[None]:
    """Limit the time of everything that a test awaits to `WAIT_S_MAX`. Raises AssertionError."""
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            yield
    except TimeoutError as error:
        awaited = what or "what the traceback above awaits"
        raise AssertionError(f"time was up: {awaited} took over {WAIT_S_MAX:g} s") from error


def _time_is_up(condition: Callable[[], object], what: str | None) -> str:
    if what is None:
        try:
            what = inspect.getsource(condition).strip()
        except (OSError, TypeError):
            what = repr(condition)
    return f"time was up: {WAIT_S_MAX:g} s passed, and this did not hold: {what}"
