"""A step of the wall clock neither ends a transaction nor refuses it nor makes it older."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.cleanup.clock_stories import DAY, TOPIC, transactions_go_on
from tests.cleanup.twins import NOW_MS, Twin
from tests.contracts.invalid_contract import _timeouts_by_hand  # noqa: F401  a fixture
from tests.manual_clock import ManualClock


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS))
    twin.await_(twin.services.messaging.create_topic(TOPIC, {"ttl": 2**31 - 1}))
    yield twin
    twin.close()
    loop.close()


@pytest.mark.parametrize("step_ms", [400 * DAY, 3_600_000, -3_600_000, -400 * DAY])
def test_transactions_continue_and_their_ages_are_right(twin: Twin, step_ms: int) -> None:
    transactions_go_on(twin, step_ms)
