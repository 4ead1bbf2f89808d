"""Collects Python's cyclic garbage by the clock, so that a server seldom stops for it.

CPython examines all objects once enough new ones have grown old. With 20,000 topics in memory that
takes a quarter of a second, in which the server answers no request; and if topics come and go, new
objects grow old all the time, although none of the earlier ones remain. Young objects, which are
nearly all, are collected as usual. Old ones are examined at most once a minute, and those from
before the server began never.

Only latency depends on this: objects in no cycle are freed at once in any case.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_PERIOD_S = 60.0
_NEVER = 2**31 - 1


@contextmanager
def collected_by_clock(
    period_s: float = _PERIOD_S,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[None]:
    """Collect old garbage in the running event loop, at most every `period_s` seconds.

    Each collection runs within the context that `around` returns.
    """
    young, middle, old = gc.get_threshold()

    async def collect() -> None:
        while True:
            await asyncio.sleep(period_s)
            # The collections of the middle generation since then: its survivors have grown old.
            if gc.get_count()[2] > old:
                with around():
                    gc.collect()

    collecting = asyncio.create_task(collect())
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        collecting.cancel()
        gc.set_threshold(young, middle, old)
        gc.unfreeze()
