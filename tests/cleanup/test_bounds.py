"""A topic's bound spares the messages of open transactions, in memory and on LevelDB."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cleanup.twins import LIMITS, NOW_MS, LevelDBTwin, Twin
from tests.contracts.bounds_contract import *  # noqa: F403  run here on these twins
from tests.contracts.bounds_contract import _timeouts_by_hand  # noqa: F401  as above
from tests.manual_clock import ManualClock


@pytest.fixture(params=[(Twin, 3), (Twin, 500), (LevelDBTwin, 500)])
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    make, rows_at_once = request.param
    limits = replace(LIMITS, cleanup_slice_rows=rows_at_once)
    twin = make(loop, ManualClock(NOW_MS), limits)
    yield twin
    twin.close()
    loop.close()
    if isinstance(twin, LevelDBTwin):
        shutil.rmtree(twin.folder)
