"""The Store contract on a real HBase."""

import pytest
from hypothesis import HealthCheck, settings

from tables.hbase.store import HBaseStore
from tests.contracts import store_contract
from tests.contracts.store_contract import StoreContract
from tests.scale import scaled

pytestmark = pytest.mark.slow

fewer = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    max_examples=scaled(8),
)


class TestHBaseStore(StoreContract):
    @pytest.fixture
    def store(self, hbase_store: HBaseStore) -> HBaseStore:
        return hbase_store

    test_a_scan_gives_a_range_in_byte_order = fewer(
        store_contract.ranges(StoreContract.scans_a_range_in_byte_order)
    )
    test_it_is_an_ordered_map_for_each_table = fewer(
        store_contract.batches(StoreContract.is_an_ordered_map_for_each_table)
    )
