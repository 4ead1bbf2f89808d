"""Chance that can be repeated: the seed is in the name of every test that takes it.

TMS_FAULT_SEED=SEED makes the choices of an earlier run again.
"""

import os
import random

import pytest

SEED = int(os.environ.get("TMS_FAULT_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture(params=[SEED], ids=[f"seed-{SEED}"])
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)
