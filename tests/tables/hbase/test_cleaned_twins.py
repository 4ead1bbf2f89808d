"""Readers of a store on HBase see the same with and without cleanup, whichever process does it.

The tables are split in the middle of topics.
"""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tables.hbase.layout import Place
from tests.cleanup.compaction_machine import Compacting
from tests.cleanup.twins import LIMITS as TWINS_LIMITS
from tests.cleanup.twins import Twin
from tests.cleanup.twins_machine import Twins
from tests.contracts.invalid_contract import _timeouts_by_hand  # noqa: F401  a fixture
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.tables.hbase.cut_tables import cut_place  # noqa: F401  a fixture
from tests.tables.hbase.twins import HBaseTwin
from tms.core.limits import Limits

EXAMPLES = scaled(8)


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.usefixtures("_timeouts_by_hand")
def test_readers_of_twins_see_the_same(
    cut_place: Place,  # noqa: F811
    *,
    is_apart: bool,
) -> None:
    """The first twin is on HBase, and cleaned up; the other is in memory, and never is."""

    class HBaseTwins(Twins):
        is_first = True

        def make(  # type: ignore[override]
            self, loop: asyncio.AbstractEventLoop, clock: ManualClock
        ) -> Twin:
            if not self.is_first:
                return Twin(loop, clock)
            self.is_first = False
            return HBaseTwin(loop, clock, place=cut_place, is_apart=is_apart)

    run_state_machine_as_test(
        HBaseTwins,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
        ),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("_timeouts_by_hand")
def test_readers_find_the_same_of_each_key(
    cut_place: Place,  # noqa: F811
) -> None:
    """The first twin is on HBase, and compacted; the other is in memory, and never is."""

    class HBaseCompacting(Compacting):
        is_first = True
        limits = replace(TWINS_LIMITS, cleanup_keys_max=2)
        tombstone_s = 600  # the minimum on a store with late writes
        pace = 20

        def make(self, loop: asyncio.AbstractEventLoop, clock: ManualClock, limits: Limits) -> Twin:
            if not self.is_first:
                return Twin(loop, clock, limits)
            self.is_first = False
            return HBaseTwin(loop, clock, limits, place=cut_place, is_apart=False)

    run_state_machine_as_test(
        HBaseCompacting,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
        ),
    )
