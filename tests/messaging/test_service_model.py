"""The service compared with the model on both stores, in any order of requests and restarts.

The cache, its blocks and the pages are made tiny, so that evictions, block borders and cut pages
are the rule. Cleanup does a part of a pass now and then, and the rest of it later. The clock is
never set so far back that messages it may have deleted would be live again: only some of them would
exist.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.store import Store
from tests.messaging.service_machine import ServiceMachine
from tests.scale import scaled
from tms.messaging import cache


class MemoryMachine(ServiceMachine):
    def open_store(self) -> Store:
        if not hasattr(self, "store"):
            return MemoryStore()
        assert isinstance(self.store, MemoryStore)
        self.store._closed = False
        return self.store


class LevelDBMachine(ServiceMachine):
    def open_store(self) -> Store:
        if not hasattr(self, "folder"):
            self.folder = Path(tempfile.mkdtemp(prefix="tms-model-"))
        return LevelDBStore(self.folder / "data", sync=False, write_buffer_bytes=64 * 1024)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


@pytest.fixture(autouse=True, scope="module")
def _tiny_cache_blocks() -> Any:
    whole = cache.BLOCK_BYTES
    cache.BLOCK_BYTES = 200
    yield
    cache.BLOCK_BYTES = whole


TestServiceInMemory = MemoryMachine.TestCase
TestServiceInMemory.settings = settings(max_examples=scaled(150), stateful_step_count=40)

TestServiceOnLevelDB = LevelDBMachine.TestCase
TestServiceOnLevelDB.settings = settings(max_examples=scaled(60), stateful_step_count=40)
