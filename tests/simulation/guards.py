"""Models that are run with a guard switched off."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.scale import scaled

SETTINGS = settings(
    max_examples=scaled(100),
    stateful_step_count=40,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
SwitchOff = Callable[[pytest.MonkeyPatch], None]


def fails(machine: type[RuleBasedStateMachine], first: int) -> bool:
    """Whether a model finds something, in thirty runs from a seed known to be quick."""
    for number in range(first, first + 30):
        seeded = type(machine.__name__, (machine,), {})
        try:
            run_state_machine_as_test(seed(number)(seeded), settings=SETTINGS)
        except Exception:
            return True
    return False
