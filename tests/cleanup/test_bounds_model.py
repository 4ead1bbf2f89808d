"""Whatever transactions do while a topic is kept within its bound, none of them loses a part."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import settings

from tests.cleanup.bounds_machine import Bounded
from tests.cleanup.twins import LIMITS, LevelDBTwin
from tests.scale import scaled

pytestmark = pytest.mark.usefixtures("timeouts_by_hand")


class LevelDBBounded(Bounded):
    make = LevelDBTwin
    limits = replace(LIMITS, cleanup_slice_rows=500)

    def teardown(self) -> None:
        super().teardown()
        for twin in (self.bounded, self.plain):
            assert isinstance(twin, LevelDBTwin)
            shutil.rmtree(twin.folder)


TestBoundsInMemory = Bounded.TestCase


TestBoundsInMemory.settings = settings(max_examples=scaled(25), stateful_step_count=30)


class LongBounded(Bounded):
    pass


TestBoundsForLong = pytest.mark.slow(LongBounded.TestCase)


TestBoundsForLong.settings = settings(max_examples=scaled(60), stateful_step_count=50)


TestBoundsOnLevelDB = pytest.mark.slow(LevelDBBounded.TestCase)


TestBoundsOnLevelDB.settings = settings(max_examples=scaled(20), stateful_step_count=40)
