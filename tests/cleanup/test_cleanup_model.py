"""Readers of a server with cleanup see the same as readers of its twin without.

That holds whatever happens in whatever order, for readers without a transaction, for committed
readers, and in each transaction in progress. A pass is done in parts, and anything may happen
between them: topics are created, deleted, created again and given another TTL. Time only goes
forward here: setting a clock back would bring back messages that had expired but were not deleted
yet.
"""

import shutil

import pytest
from hypothesis import settings

from tests.cleanup.twins import LevelDBTwin
from tests.cleanup.twins_machine import (
    Twins,
)
from tests.scale import scaled

pytestmark = pytest.mark.usefixtures("timeouts_by_hand")


class LevelDBTwins(Twins):
    make = LevelDBTwin

    def teardown(self) -> None:
        super().teardown()
        for twin in (self.cleaned, self.plain):
            assert isinstance(twin, LevelDBTwin)
            shutil.rmtree(twin.folder)


TestTwinsInMemory = Twins.TestCase


TestTwinsInMemory.settings = settings(max_examples=scaled(15), stateful_step_count=30)


class LongTwins(Twins):
    pass


TestTwinsForLong = pytest.mark.slow(LongTwins.TestCase)


TestTwinsForLong.settings = settings(max_examples=scaled(100), stateful_step_count=50)


TestTwinsOnLevelDB = pytest.mark.slow(LevelDBTwins.TestCase)


TestTwinsOnLevelDB.settings = settings(max_examples=scaled(20), stateful_step_count=40)
