"""A seeded workload of transactions, with a crash at each durable write in turn.

Clients run transactions of all kinds at once. At the k-th durable write the server dies: that write
is done or not, requests in progress get no answer, and a new server continues from the store. Every
answered request must then hold, and every other one must hold whole or not at all. Once timeouts
have fired, readers see every committed message in an order that no earlier answer contradicts. The
wall clock steps between starts and publishes; half of the seeds believe each step at once. Cleanup
then forgets which transactions were invalid, and readers see no difference.
"""

from contextlib import suppress
from dataclasses import replace

import pytest

from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.simulation.transaction_crashes import (
    FAR_MS,
    LIMITS,
    NOW_MS,
    TIMEOUT_S,
    TOPICS,
    TRANSACTIONS,
    DyingStore,
    Ledger,
    check,
    check_cleaned,
    committed,
    opened,
    prepared,
    run_clients,
    writes_of,
)
from tests.waiting import until
from tms.core.errors import (
    TmsError,
    TransactionDuplicate,
    TransactionUnknown,
)
from tms.core.services.transactions import StartRequest
from tms.transactions import service

pytestmark = pytest.mark.anyio

CLEANED_EVERY = 3
"""Cleanup is checked after one in this number of crashes, as it takes as long as all the rest."""


@pytest.fixture(autouse=True)
def _quick_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_TICK_S", 0.005)


@pytest.mark.parametrize("seed", range(scaled(12)))
async def test_a_crash_at_any_write_leaves_all_or_nothing(seed: int) -> None:
    limits = replace(LIMITS, clock_hold_s=0) if seed % 2 else LIMITS
    count = await writes_of(seed)
    assert count > 2 * TRANSACTIONS
    for dies_at in range(count):
        for is_done in (False, True):
            store, clock, ledger = DyingStore(), ManualClock(NOW_MS), Ledger()
            services = await prepared(store, clock, limits)
            if seed % 4 == 1:
                clock.step(
                    -FAR_MS
                )  # so the clock was ahead when the store was opened, and pointers still are
            store.dies_at = (store.writes + dies_at, is_done)
            await run_clients(services, ledger, clock, seed)
            with suppress(TmsError):
                await services.close()
            store.dies_at = None
            store.settle()
            again = await opened(store, clock, limits)
            try:
                await check(again, ledger, clock)
                if dies_at % CLEANED_EVERY == seed % CLEANED_EVERY:
                    await check_cleaned(again, store, clock)
            except AssertionError as error:
                error.add_note(f"{seed=} {dies_at=} {is_done=}")
                raise
            finally:
                await again.close()


async def test_a_clock_set_back_while_it_is_down_keeps_nobody_waiting_longer() -> None:
    store, clock = MoodyStore(), ManualClock(NOW_MS)
    services = await prepared(store, clock)
    tx = await services.transactions.start(StartRequest(timeout_s=TIMEOUT_S))
    await services.messaging.publish(TOPICS[0], [b"hangs"], tx.write_pointer)
    await services.close()

    clock.set(NOW_MS - 24 * 3_600_000)
    again = await opened(store, clock)
    await again.messaging.publish(TOPICS[0], [b"plain"])
    assert await committed(again, TOPICS[0]) == []
    clock.advance((TIMEOUT_S + 1) * 1000)

    async def have_ended() -> bool:
        return not await again.transactions.in_progress()

    await until(have_ended)
    assert await committed(again, TOPICS[0]) == [b"plain"]
    with pytest.raises((TransactionDuplicate, TransactionUnknown, TmsError)):
        await again.transactions.commit(tx.transaction_id)
    await again.close()
