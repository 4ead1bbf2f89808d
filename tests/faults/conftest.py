"""Chance that can be repeated: the seed is in the name of every test that takes it.

FAULT_SEED=SEED makes the choices of an earlier run again.
"""

import os
import random

import pytest

# Where there are several processes, each has to name the tests as the others do.
RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))
SEED = int(os.environ.get("FAULT_SEED", RUN.randrange(2**32)))


@pytest.fixture(params=[SEED], ids=[f"seed-{SEED}"])
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)
