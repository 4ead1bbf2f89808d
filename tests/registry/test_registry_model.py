"""Random histories of one registry, of three on one log, and of a master and two others, held
against a plain model.
"""

import pytest
from hypothesis import settings

from tests.registry.masters_machine import MasterHistories
from tests.registry.registry_machine import Histories
from tests.scale import scaled


class OfThree(Histories):
    registries_count = 3


TestOne = Histories.TestCase
TestOne.settings = settings(max_examples=scaled(25), stateful_step_count=30)

TestThree = pytest.mark.slow(OfThree.TestCase)
TestThree.settings = settings(max_examples=scaled(60), stateful_step_count=50)

TestMasters = MasterHistories.TestCase
TestMasters.settings = settings(max_examples=scaled(25), stateful_step_count=40)
