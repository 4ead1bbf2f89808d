"""The Store contract on every implementation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.sealing.store import SealedStore
from tables.store import Store
from tests.contracts.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestLevelDBStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = LevelDBStore(tmp_path / "data")
        yield store
        store.close()


class TestSealedStore(StoreContract):
    """A store without a leader or seals, the way that every store on HBase is opened."""

    @pytest.fixture
    def store(self) -> Store:
        return SealedStore(MemoryStore())
