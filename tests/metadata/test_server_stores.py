"""The contract on ZooKeeper and etcd, real ones."""

import pytest

from dev.processes import Servers
from tests.contracts.metadata_store_contract import MetadataStoreContract, Sessions
from tests.metadata.servers import Open, fresh_url
from tms.metadata.interface import MetadataStore

pytestmark = pytest.mark.anyio


def sessions_of(url: str, sessions_at: Open) -> Sessions:
    async def session() -> MetadataStore:
        return await sessions_at(url)

    return session


class TestZooKeeper(MetadataStoreContract):
    tells_of_children_exactly = False

    @pytest.fixture
    def sessions(self, zookeeper: Servers, sessions_at: Open) -> Sessions:
        return sessions_of(fresh_url("zk", zookeeper), sessions_at)


class TestEtcd(MetadataStoreContract):
    tells_of_children_exactly = False

    @pytest.fixture
    def sessions(self, etcd: Servers, sessions_at: Open) -> Sessions:
        return sessions_of(fresh_url("etcd", etcd), sessions_at)
