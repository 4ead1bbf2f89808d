"""Each guard against late calls is needed: without it the simulation of leaders fails."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tables.sealing.positions import SealedSubscriptionTable
from tables.sealing.runs import RunSeals
from tables.sealing.seal import Seal
from tests.simulation.leaders_machine import LeadersMachine
from tms.core.clock import KeyTime, ManualClock
from tms.core.tables import TransactionTable
from tms.transactions import recovery, segments

pytestmark = pytest.mark.slow

SETTINGS = settings(
    max_examples=3_000,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
SwitchOff = Callable[[pytest.MonkeyPatch], None]


def seals_of_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seal, "followed", lambda _, token, *__: Seal(token))


def seals_of_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunSeals, "hidden", lambda *_: ())
    patch.setattr(RunSeals, "ranges", lambda *_: [])


def floors_of_positions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedSubscriptionTable, "_seal", lambda *_: None)


def rows_of_positions_by_token(patch: pytest.MonkeyPatch) -> None:
    floors_of_positions(patch)
    patch.setattr(SealedSubscriptionTable, "_token", lambda *_: 0)


def keys_above_the_ceiling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyTime, "now_ms", lambda _: ManualClock(1_800_000_000_000).now_ms())


def ends_of_segments(patch: pytest.MonkeyPatch) -> None:
    """Have all rows of each segment count, also those behind its end."""

    def pieces(table: TransactionTable, first: int) -> list[tuple[int, int | None]]:
        found = []
        for start, end in segments.pieces(table, first):
            token = segments.token_of(start)
            own = [n for n, _ in table.rows(start) if segments.token_of(n) == token]
            found.append((start, None if end is None else max([end, *(n + 1 for n in own)])))
        return found

    patch.setattr(recovery, "pieces", pieces)


@pytest.mark.parametrize(
    "switch_off",
    [
        seals_of_topics,
        seals_of_runs,
        floors_of_positions,
        rows_of_positions_by_token,
        keys_above_the_ceiling,
        ends_of_segments,
    ],
)
def test_without_a_guard_the_simulation_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff
) -> None:
    switch_off(monkeypatch)
    try:
        run_state_machine_as_test(LeadersMachine, settings=SETTINGS)
    except Exception:
        return
    pytest.fail("nothing fails without it")
