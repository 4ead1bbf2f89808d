"""Ended things are forgotten: doubling the number of cycles leaves hardly anything more in memory.

Objects that the collector knows are counted by their type, and the bytes of all memory by the line
that allocated them. A cycle must leave none of either; caches that are filled up to a bound are in
`BOUNDED`.
"""

import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from cachetools import Cache

from api.http.door.access_control import AccessControl
from api.http.exchange import topic_id_of
from tests.api.console.site import Site, site
from tests.api.doors import ROOT, Doors
from tests.census.cycles import CYCLES, NS, Asker
from tests.manual_clock import ManualClock
from tests.objects_in_memory import count_by_type, objects_of
from tests.scale import scaled
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

Found = TypeVar("Found")

N = scaled(150, 15)
BYTES_MAX = 64
"""Bytes allowed per cycle: an object with a dictionary has more."""
SLACK_BYTES = 128 * 1024
"""Bytes allowed for structures that grow in leaps, for the client, and for the last queries."""
DAY_MS = 86_400_000
SMALL = Limits(cache_bytes_max=1_000_000, topics_in_memory_max=20)


BOUNDED = {
    "GroupMember": "a group shows the last 1,000 members that asked it",
    "Taker": "the same",
    "mappingproxy": "the last 256 queries of requests",
    "Context": "asyncio takes cancelled timers from its heap when they are half of it",
    "TimerHandle": "the same",
    "SplitResult": "the last 128 addresses that urllib split",
}
"""Objects that are kept up to a bound that a test does not reach."""
BOUNDED_OF = {
    "evicted": {
        "TopicId": "a topic in memory keeps one more since the names of topics were emptied"
    },
}
"""The same, for one cycle each."""


def allocated() -> tracemalloc.Snapshot:
    """Return what is allocated, apart from earlier snapshots."""
    snapshots = tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)
    return tracemalloc.take_snapshot().filter_traces([snapshots])


def empty_caches(served: Site) -> None:
    """Empty all caches, and collect what they alone kept."""
    served.app.routes._known.clear()
    topic_id_of.cache_clear()
    for cache in objects_of(Cache):
        cache.clear()
    for access in objects_of(AccessControl):
        access._decisions.clear()
    gc.collect()
    gc.collect()


async def rest(served: Site, clock: ManualClock) -> None:
    """Let the time pass after which everything that ended may be forgotten, and clean up."""
    cleanup = served.services.in_shard(0).cleanup
    for by_ms in (61_000, 2 * DAY_MS, 61_000):
        clock.advance(by_ms)
        if cleanup is not None:
            await cleanup.run_pass(60)


@pytest.fixture(autouse=True)
def _log_nothing() -> Iterator[None]:
    """Keep pytest from storing log records, with their tracebacks, for a test's report."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def measured(name: str, folder: Path, measure: Callable[[], Found]) -> tuple[Found, Found]:
    """Return what `measure` finds after `N` cycles, and after `N` more."""
    clock, store = ManualClock(1_700_000_000_000), f"leveldb:{folder / 'data'}"
    doors = Doors(clock)
    await doors.open()
    async with site(doors, store=store, clock=clock, limits=SMALL) as served:
        served.browser.http.headers["authorization"] = f"Bearer {await doors.token(ROOT)}"
        asker = Asker(served.browser.http, clock)
        await asker.create("kept")
        await asker.ask("PUT", f"{NS}/topics/kept/subscriptions/workers", {"kind": "shared"})
        empty_caches(served)  # the first time creates lasting objects
        measure()

        async def after(first: int) -> Found:
            for number in range(first, first + N):
                await CYCLES[name](asker, number)
            await rest(served, clock)
            empty_caches(served)
            return measure()

        return await after(0), await after(N)


@pytest.mark.parametrize("name", sorted(CYCLES))
async def test_twice_as_much_leaves_no_more_objects(name: str, tmp_path: Path) -> None:
    before, after = await measured(name, tmp_path, count_by_type)
    more = {kind: count for kind, count in (after - before).items() if count > N // 3}
    assert more.keys() <= BOUNDED.keys() | BOUNDED_OF.get(name, {}).keys(), more


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CYCLES))
async def test_twice_as_much_leaves_no_more_bytes(name: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        before, after = await measured(name, tmp_path, allocated)
    finally:
        tracemalloc.stop()
    more = after.compare_to(before, "lineno")  # the largest differences first
    bytes_more = sum(each.size_diff for each in more)
    assert bytes_more < BYTES_MAX * N + SLACK_BYTES, more[:10]
