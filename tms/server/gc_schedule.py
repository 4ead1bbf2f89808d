"""Collects Python's cyclic garbage by the clock, so that a server seldom stands still for it.

CPython looks through all objects there are once enough new ones have grown old. With 20,000 topics
in memory that takes a quarter of a second, in which nobody is served; and where topics come and
go, new objects grow old all the time, though nothing is left of those before. What is young is
collected as ever, and that is nearly all. What has grown old is looked through once a minute at
most, and what was there before the server began never.

Nothing relies on this but latency: what is in no cycle is freed at once in any case.
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
    """Look for old garbage in the running event loop, every `period_s` seconds at most.

    Each time that is done within the context that `around` returns.
    """
    young, middle, old = gc.get_threshold()

    async def collect() -> None:
        while True:
            await asyncio.sleep(period_s)
            # How often the middle ones were collected since: what is left of them has grown old.
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
