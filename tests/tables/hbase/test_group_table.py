"""The Group table on HBase."""

import pytest

from tables.hbase.store import HBaseStore
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tests.contracts.group_table_contract import GroupTableContract

pytestmark = pytest.mark.slow


class TestOnHBase(GroupTableContract):
    @pytest.fixture
    def tables(self, hbase_store: HBaseStore) -> SealedTables:
        return SealedTables(SealedStore(hbase_store))
