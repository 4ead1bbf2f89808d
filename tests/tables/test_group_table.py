"""The Group table in memory and on LevelDB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store_tables import StoreTables
from tests.contracts.group_table_contract import GroupTableContract


class TestInMemory(GroupTableContract):
    @pytest.fixture
    def tables(self) -> Iterator[StoreTables]:
        tables = StoreTables(MemoryStore())
        yield tables
        tables.close()


class TestOnLevelDB(GroupTableContract):
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Iterator[StoreTables]:
        tables = StoreTables(LevelDBStore(tmp_path, sync=False))
        yield tables
        tables.close()


class TestSealed(GroupTableContract):
    @pytest.fixture
    def tables(self) -> Iterator[StoreTables]:
        tables = SealedTables(SealedStore(MemoryStore()))
        yield tables
        tables.close()
