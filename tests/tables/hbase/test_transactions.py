"""Transactions on a real HBase, whose server dies between any two calls, or within one."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tables.hbase.connections import CallFailed, Gateway
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tests.contracts.store_contract import empty
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.simulation.transaction_crashes import (
    NOW_MS,
    Ledger,
    check,
    opened,
    prepared,
    run_clients,
)
from tests.tables.hbase.conftest import gateway_to
from tests.transactions.isolation import Isolation
from tms.core.errors import TmsError
from tms.transactions import service

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EXAMPLES = scaled(8)
WRITES = ("mutateRows", "checkAndPut")


class DyingGateway(Gateway):
    """Dies at the n-th writing call: that call is carried out or not, and no later one is."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.host, place.port, retry_s=0.0)
        self.calls = 0
        self.dies_at: tuple[int, bool] | None = None

    def once(self, call: Callable[[Any], Any]) -> Any:
        return super().once(lambda client: call(_Client(client, self)))

    def write(self, call: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        self.calls += 1
        if self.dies_at is None or self.calls < self.dies_at[0]:
            return call(*given)
        if self.dies_at == (self.calls, True):
            call(*given)
        raise CallFailed("dead")


class _Client:
    def __init__(self, client: Any, gateway: DyingGateway) -> None:
        self._client, self._gateway = client, gateway

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        return (lambda *given: self._gateway.write(call, given)) if name in WRITES else call


def taken_over(place: Place, gateway: Gateway) -> HBaseStore:
    """Open the store as a server; dead servers have no calls in flight."""
    store = HBaseStore(place, gateway)
    store.take_over(lambda _: None)
    return store


async def die(
    place: Place, dies_at: tuple[int, bool] | None, seed: int, ledger: Ledger, clock: ManualClock
) -> int:
    """Run clients until the server dies; return the number of writing calls."""
    gateway = DyingGateway(place)
    services = await prepared(taken_over(place, gateway), clock)
    before = gateway.calls
    if dies_at is not None:
        gateway.dies_at = (before + dies_at[0], dies_at[1])
    await run_clients(services, ledger, clock, seed)
    made = gateway.calls - before
    with suppress(TmsError):
        await services.close()
    return made


async def test_a_death_at_any_call_leaves_all_or_nothing(
    place: Place, hbase_store: HBaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_TICK_S", 0.005)
    chance = random.Random(7)
    count = await die(place, None, 0, Ledger(), ManualClock(NOW_MS))
    for seed in range(EXAMPLES):
        empty(hbase_store)
        dies_at, ledger = (chance.randint(1, count), chance.random() < 0.5), Ledger()
        clock = ManualClock(NOW_MS)
        await die(place, dies_at, seed, ledger, clock)
        again = await opened(taken_over(place, gateway_to(place)), clock)
        try:
            await check(again, ledger, clock)
        except AssertionError as error:
            error.add_note(f"{seed=} {dies_at=}")
            raise
        finally:
            await again.close()


def test_histories_are_recovered_as_they_were(place: Place, hbase_store: HBaseStore) -> None:
    class HBaseIsolation(Isolation):
        def open_store(self) -> HBaseStore:
            empty(hbase_store)
            return hbase_store

    run_state_machine_as_test(
        HBaseIsolation,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=25),
    )
