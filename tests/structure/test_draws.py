"""Everything that a run draws at random depends on the one seed that it prints (tests/scale.py)."""

import random

import pytest
from hypothesis import core, settings

from tests import scale


def test_hypothesis_draws_from_the_seed_of_the_run() -> None:
    assert core.global_force_seed == scale.seed()
    assert not settings().derandomize, "it ignores the seed"


def test_random_numbers_are_those_of_the_test(request: pytest.FixtureRequest) -> None:
    assert random.random() == random.Random(f"{scale.seed()} {request.node.nodeid}").random()
