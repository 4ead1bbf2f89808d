"""The store contract on real ZooKeeper and etcd servers."""

import asyncio
from typing import Any

import pytest

from dev.processes import Servers
from tests.contracts.metadata_store_contract import MetadataStoreContract, Sessions
from tests.metadata.servers import Open, fresh_url
from tms.metadata.interface import MetadataStore
from tms.metadata.zookeeper.connection import ZooKeeperConnection
from tms.metadata.zookeeper.requests import FailedRequest, MultiRead

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

    async def test_large_values_read_at_once_come_in_answers_of_bounded_size(
        self, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await sessions()
        values = {f"/large/{number}": bytes([number]) * 500_000 for number in range(12)}
        values |= {f"/small/{number}": bytes([number]) for number in range(40)}
        await asyncio.gather(*(store.put(path, value) for path, value in values.items()))
        answered: list[int] = []
        answer = ZooKeeperConnection.answer

        async def measured(self: ZooKeeperConnection, request: Any) -> Any:
            answers = await answer(self, request)
            if isinstance(request, MultiRead):
                read = [each for each in answers if not isinstance(each, FailedRequest)]
                answered.append(sum(len(data) for data, _ in read))
            return answers

        monkeypatch.setattr(ZooKeeperConnection, "answer", measured)
        found = await asyncio.gather(*map(store.get, [*values, "/absent"]))

        assert [each and each.value for each in found] == [*values.values(), None]
        assert max(answered) <= 2_000_000
        assert len(answered) < 10


class TestEtcd(MetadataStoreContract):
    tells_of_children_exactly = False

    @pytest.fixture
    def sessions(self, etcd: Servers, sessions_at: Open) -> Sessions:
        return sessions_of(fresh_url("etcd", etcd), sessions_at)
