"""The machine of `service_of_groups_machine` on both stores, in both orders."""

import shutil
import tempfile
from pathlib import Path

from tables.leveldb import LevelDBStore
from tables.store_tables import StoreTables
from tests.messaging.conftest import FaultyStore
from tests.messaging.groups.service_of_groups_machine import GroupServiceMachine
from tests.messaging.writes_that_fail import WritesThatFail
from tms.core.values.batch import Batch
from tms.core.values.group_settings import Order


class KeptStore(FaultyStore):
    """A memory store that can be used after it was closed."""

    def close(self) -> None:
        """Keep all."""


class FaultyLevelDB(WritesThatFail, LevelDBStore):
    """A store on disk whose writes can be made to fail."""

    def write(self, batch: Batch) -> None:
        self.write_or_fail(super().write, batch)


class InMemory(GroupServiceMachine):
    def open_store(self) -> StoreTables:
        if not hasattr(self, "store"):
            self.store = KeptStore()
        return StoreTables(self.store)


class OnLevelDB(GroupServiceMachine):
    def open_store(self) -> StoreTables:
        if not hasattr(self, "folder"):
            self.folder = Path(tempfile.mkdtemp(prefix="tms-groups-"))
        self.store = FaultyLevelDB(self.folder / "data", sync=False)
        return StoreTables(self.store)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


class Unordered(InMemory):
    order = Order.NONE


class ByKey(InMemory):
    order = Order.KEY


class ByKeyOnLevelDB(OnLevelDB):
    order = Order.KEY
