"""Old garbage is collected only at set times, and the collector's settings are restored."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.virtual_loop import VirtualLoop
from tests.waiting import in_time, passes
from tms.server.gc_schedule import collected_by_clock

LONG_S = 60.0


def run_virtually(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


class Ring:
    """Refers to itself, so only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def make_objects_grow_old() -> list[list[int]]:
    """Return more new objects than CPython allows before it runs a full collection."""
    young, middle, old = gc.get_threshold()
    return [[number] for number in range(young * (middle + 1) * (min(old, 10) + 2))]


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


@pytest.fixture(autouse=True)
def nothing_changed() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_what_has_grown_old_is_not_looked_through_before_its_time() -> None:
    async def run() -> None:
        with collected_by_clock(LONG_S):
            assert gc.get_freeze_count() > 0
            before = full_collections()
            kept = [make_objects_grow_old() for _ in range(3)]
            assert full_collections() == before
        del kept

    run_virtually(run())


def test_what_has_grown_old_is_collected_in_time() -> None:
    async def run() -> None:
        with collected_by_clock(0.01):
            ring = Ring()
            freed = asyncio.Event()
            finalizer = weakref.finalize(ring, freed.set)
            kept = make_objects_grow_old()
            del ring
            # The ring is in the oldest generation by now, which this collection leaves out.
            gc.collect(1)
            assert finalizer.alive
            async with in_time():
                await freed.wait()
        del kept

    run_virtually(run())


def test_nothing_is_looked_through_if_nothing_has_grown_old() -> None:
    async def run() -> None:
        with collected_by_clock(0.001):
            before = full_collections()
            await passes(0.05)
            assert full_collections() == before

    run_virtually(run())


def test_a_failure_leaves_the_collector_as_it_was() -> None:
    async def run() -> None:
        with collected_by_clock(LONG_S):
            raise KeyError

    with pytest.raises(KeyError):
        run_virtually(run())
