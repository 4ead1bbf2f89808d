"""A cluster on a store without shards, which is served as one shard; users cannot tell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from api.cluster.forwarding import Forwarder
from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.api.cluster.standing_by import LIMITS, Following, Known
from tests.api.rest import TOPIC, TOPICS, live, refusal, serving
from tests.waiting import until
from tms.server.shard import Upkeep
from tms.settings import Settings

pytestmark = pytest.mark.anyio


class Server:
    """A server of the cluster, and a client of it."""

    def __init__(self, following: Following, http: httpx.AsyncClient) -> None:
        self.parts = following
        self.http = http

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        store, services = MemoryStore(), self.parts.services
        opened = StoreTables(store), Upkeep("memory:", store, Settings())
        async with services.leading(0, opened) as shard:
            self.parts.routing.lead(0, services.in_shard(0), lambda: 1.0)
            yield
            await self.parts.routing.leave(0, shard.stop_waiting)


@pytest.fixture
async def server(anyio_backend: object) -> AsyncIterator[Server]:
    following = Following(Forwarder(7), hold_s=5.0, cluster=Known())
    async with (
        serving(following.app, LIMITS, grace_s=0.5) as (url, _),
        httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
    ):
        yield Server(following, http)
    await following.close()


async def test_requests_wait_for_the_next_leader(server: Server) -> None:
    asked = [server.http.put(TOPIC), server.http.get("/v1/transactions"), server.http.get(TOPICS)]
    waiting = [asyncio.create_task(each) for each in asked]
    await until(lambda: server.parts.routing.held == 3)
    async with server.leading():
        answers = await asyncio.gather(*waiting)
        assert [each.status_code for each in answers] == [200] * 3
        assert not any("tms-forwarded-by" in each.headers for each in answers)


async def test_a_poll_continues_at_the_next_leader(server: Server) -> None:
    poll = f"{TOPIC}/poll?wait=60"
    async with live(own=True) as other:
        await other.create()
        server.parts.hear(f"http://127.0.0.1:{other.port}")
        waiting = asyncio.create_task(server.http.post(poll, json={}))
        await other.until(lambda: other.waiters() == 1)
        async with server.leading():
            server.parts.forwarder.forward_to(None)
            answer = await waiting
            assert refusal(answer) == (404, "topic_not_found")
            assert "tms-forwarded-by" not in answer.headers


async def test_nothing_of_a_shard_is_reported(server: Server) -> None:
    server.parts.routing._hold_s = 0.0
    away = await server.http.get(TOPICS)
    assert refusal(away) == (503, "no_leader")
    assert "shard" not in away.json()["error"]["detail"]
    unready = await server.http.get("/ready")
    assert refusal(unready) == (503, "no_leader")
    assert "warnings" not in unready.json()["error"]["detail"]

    async with server.leading():
        assert (await server.http.get("/ready")).json() == {"status": "ready"}
        for path in ("/v1/cleanup", "/v1/transactions/state", "/v1/debug/size?table=message"):
            for query in ("", "shard=0"):
                mark = "&" if "?" in path else "?"
                answer = await server.http.get(f"{path}{mark}{query}" if query else path)
                assert answer.status_code == 200, answer.text
        wrong = await server.http.get("/v1/cleanup?shard=1")
        assert refusal(wrong) == (400, "invalid_query")
        status = (await server.http.get("/v1/status")).json()
        assert status["missing_shards"] == []
        wish = await server.http.put("/v1/cluster/wishes", json={"0": 1})
        assert refusal(wish) == (400, "invalid_wish")
        metrics = (await server.http.get("/metrics")).text
        assert "tms_cache_misses_total" in metrics
        assert 'shard="' not in metrics
