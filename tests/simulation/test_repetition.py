"""The same seed repeats a run: the same calls of the same servers, in the same order.

Otherwise nobody could repeat what a run with a new seed has found.
"""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests import manual_clock, scale
from tests.simulation.gateway import SimulatedGateway
from tests.simulation.leaders_groups import GroupLeaders
from tests.simulation.leaders_machine import LeadersMachine
from tests.simulation.leaders_schedules import ScheduleLeaders
from tests.simulation.shards_machine import ShardsMachine

SETTINGS = settings(
    max_examples=scale.scaled(10),
    stateful_step_count=40,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)


def calls_of(machine: type[RuleBasedStateMachine]) -> list[Any]:
    """Return the changes that the servers of a model send, with the fate of each."""
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        change = SimulatedGateway.change

        def recorded(gateway: SimulatedGateway, call: Any) -> Any:
            calls.append((gateway.mode, gateway.skip, str(call)))
            return change(gateway, call)

        patch.setattr(SimulatedGateway, "change", recorded)
        patch.setattr(manual_clock, "_boots", itertools.count(1))
        seeded = seed(scale.seed())(type(machine.__name__, (machine,), {}))
        run_state_machine_as_test(seeded, settings=SETTINGS)
    return calls


@pytest.mark.parametrize("machine", [LeadersMachine, GroupLeaders, ScheduleLeaders, ShardsMachine])
def test_a_seed_repeats_the_calls(machine: type[RuleBasedStateMachine]) -> None:
    first, again = calls_of(machine), calls_of(machine)
    assert first
    for number, (one, other) in enumerate(zip(first, again, strict=False)):
        assert one == other, f"call {number} differs"
    assert len(first) == len(again)
