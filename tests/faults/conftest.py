"""A repeatable source of chance, from the seed of the run (tests/scale.py)."""

import random

import pytest

from tests import scale

SEED = scale.seed()


@pytest.fixture
def chance() -> random.Random:
    return random.Random(SEED)
