"""Readers of a server with compaction find the same for each key as readers of its twin without.

That holds whatever happens in whatever order, for committed readers and in each transaction in
progress. A run is done in parts, and anything may happen between them: messages, transactions with
all outcomes, tombstones, clocks that are set back, crashes, another ttl. At most two keys are
remembered at a time, so that a run needs several sweeps.
"""

import shutil
from dataclasses import replace

import pytest
from hypothesis import settings

from tests.cleanup.compaction_machine import Compacting
from tests.cleanup.twins import LIMITS, LevelDBTwin
from tests.scale import scaled

pytestmark = pytest.mark.usefixtures("timeouts_by_hand")


class FewKeys(Compacting):
    limits = replace(LIMITS, cleanup_keys_max=2)


class OnLevelDB(FewKeys):
    make = LevelDBTwin

    def teardown(self) -> None:
        super().teardown()
        for twin in (self.compacted, self.plain):
            assert isinstance(twin, LevelDBTwin)
            shutil.rmtree(twin.folder)


TestCompactingInMemory = Compacting.TestCase
TestCompactingInMemory.settings = settings(max_examples=scaled(15), stateful_step_count=30)

TestCompactingFewKeys = pytest.mark.slow(FewKeys.TestCase)
TestCompactingFewKeys.settings = settings(max_examples=scaled(60), stateful_step_count=50)

TestCompactingOnLevelDB = pytest.mark.slow(OnLevelDB.TestCase)
TestCompactingOnLevelDB.settings = settings(max_examples=scaled(15), stateful_step_count=40)


def test_what_a_run_met_before_it_was_inverted_goes_later() -> None:
    model = FewKeys()
    try:
        model.compact(is_on_demand=True, steps=1)  # this step sees no invalid transaction yet
        model.start()
        model.publish_in_one(pick=0, writes=[(b"a", None), (b"a", None)])
        model.time_passes(by_ms=61_000)
        model.compact(is_on_demand=False, steps=5)

        model.all_is_compacted()
    finally:
        model.teardown()
