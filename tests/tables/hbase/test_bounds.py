"""A topic's bound spares the messages of open transactions on HBase."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tables.hbase.layout import Place
from tests.cleanup.bounds_machine import Bounded
from tests.cleanup.twins import NOW_MS, Twin
from tests.contracts.bounds_contract import (  # noqa: F401  run here on this twin
    _timeouts_by_hand,
    test_checkpoints_hold_what_is_stored_under_them,
    test_what_is_stored_for_a_transaction_stays_until_it_has_ended,
    test_what_was_committed_behind_an_undecided_entry_stays_whole,
)
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.tables.hbase.twins import HBaseTwin
from tms.core.limits import Limits

pytestmark = pytest.mark.slow

EXAMPLES = scaled(8)


@pytest.fixture
def twin(place: Place) -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = HBaseTwin(loop, ManualClock(NOW_MS), place=place, is_apart=False)
    yield twin
    twin.close()
    loop.close()


def test_no_transaction_loses_a_part(place: Place) -> None:
    """The first twin is on HBase, and has bounds; the other is in memory, and has none."""

    class HBaseBounded(Bounded):
        is_first = True

        def make(self, loop: asyncio.AbstractEventLoop, clock: ManualClock, limits: Limits) -> Twin:
            if not self.is_first:
                return Twin(loop, clock, limits)
            self.is_first = False
            return HBaseTwin(loop, clock, limits, place=place, is_apart=False)

    run_state_machine_as_test(
        HBaseBounded,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
        ),
    )
