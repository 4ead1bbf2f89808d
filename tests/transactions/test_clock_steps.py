"""A step of the wall clock neither ends a transaction nor refuses it nor makes it older."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.cleanup.clock_stories import DAY, TOPIC, starts_far_ahead, transactions_go_on
from tests.cleanup.twins import NOW_MS, Twin
from tests.contracts.invalid_contract import _timeouts_by_hand  # noqa: F401  a fixture
from tests.manual_clock import ManualClock
from tms.core.services.transactions import StartRequest


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


def test_owners_are_remembered_from_the_time_to_which_the_clock_was_set(twin: Twin) -> None:
    """A machine that keeps the time of its last stop in a file was off for 30 days."""
    twin.close()
    twin.clock.reboot()
    twin.open()
    twin.clock.step(30 * DAY)
    twin.await_(twin.services.messaging.publish_all({TOPIC: [b"1"]}, owner="o", sequence=7))
    transaction = twin.await_(twin.transactions.start(StartRequest(owner="p", sequence=7)))
    twin.await_(twin.transactions.commit(transaction.transaction_id))

    infos = twin.await_(twin.transactions.owners())
    assert [info.committed_ms for info in infos] == [NOW_MS + 30 * DAY] * 2


def test_a_start_with_a_clock_far_ahead_forgets_no_owner(twin: Twin) -> None:
    twin.await_(twin.services.messaging.publish_all({TOPIC: [b"1"]}, owner="o", sequence=7))
    starts_far_ahead(twin)
    twin.await_(twin.services.messaging.publish_all({TOPIC: [b"2"]}))
    twin.clock.advance(300_000)
    twin.await_(twin.transactions._snapshots.write_if_due())
    twin.clock.step(-30 * DAY)

    again = twin.services.messaging.publish_all({TOPIC: [b"1"]}, owner="o", sequence=7)
    assert twin.await_(again).is_duplicate
