"""Requests of servers that share shards: each goes to its shard, or waits for a leader."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.api.cluster.sharing import (
    NAMESPACES,
    SharingServer,
    code_of,
    publish,
    shared,
    sharing,
    topic,
)
from tests.waiting import WAIT_S_MAX, in_time, turns, until
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio

BY_BOTH = "TMS-Forwarded-By"
TURNS_MAX = 200


@pytest.fixture
async def servers(anyio_backend: str) -> AsyncIterator[Sequence[SharingServer]]:
    """Two servers that hold a request for as long as a test waits."""
    async with shared(hold_s=WAIT_S_MAX) as servers:
        yield servers


async def payloads(server: SharingServer, namespace: str) -> list[str]:
    answer = await server.http.post(f"{topic(namespace)}/poll", json={"limit": 100_000})
    return [each["payload"] for each in answer.json()]


def test_the_namespaces_are_of_the_shards_that_tests_take_them_for() -> None:
    assert [Sharding(3).home(each) for each in NAMESPACES] == [0, 1, 2]


async def test_each_topic_is_answered_by_its_leader(servers: Sequence[SharingServer]) -> None:
    first, second = servers
    for shard, namespace in enumerate(NAMESPACES):
        leader, other = (first, second) if shard == 0 else (second, first)
        created = await other.http.put(topic(namespace))
        assert (created.status_code, created.headers[BY_BOTH]) == (200, str(other.number))
        assert BY_BOTH not in (await publish(leader, namespace, "1")).headers
        assert BY_BOTH in (await publish(other, namespace, "2")).headers
        for server in servers:
            assert await payloads(server, namespace) == ["1", "2"]
            names = (await server.http.get(f"/v1/namespaces/{namespace}/topics")).json()
            assert names == ["t"]


async def test_a_transaction_is_answered_where_its_id_says(
    servers: Sequence[SharingServer],
) -> None:
    for shard, namespace in enumerate(NAMESPACES):
        leader = servers[0 if shard == 0 else 1]
        for server in servers:
            started = await server.http.post(f"/v1/transactions?namespace={namespace}")
            assert started.status_code == 200
            number = int(started.json()["transaction_id"])
            assert number % 3 == shard
            assert (BY_BOTH in started.headers) == (server is not leader)
            for asked in servers:
                found = await asked.http.get(f"/v1/transactions/{number}")
                assert found.json()["status"] == "in_progress"
                listed = await asked.http.get("/v1/transactions?status=in_progress")
                assert str(number) in [each["transaction_id"] for each in listed.json()]
            assert (await server.http.post(f"/v1/transactions/{number}/abort")).status_code == 200
    for server in servers:
        assert (await server.http.get("/v1/transactions?status=in_progress")).json() == []


async def test_lists_by_topic_are_of_all_servers(anyio_backend: str) -> None:
    async with shared(ShardBy.TOPIC) as servers:
        names = [f"t{number}" for number in range(9)]
        shards = {Sharding(3, ShardBy.TOPIC).shard_of(TopicId("n", name)) for name in names}
        assert shards == {0, 1, 2}
        for name in names:
            assert (await servers[0].http.put(topic("n", name))).status_code == 200
        for server in servers:
            found = await server.http.get("/v1/namespaces/n/topics")
            assert sorted(found.json()) == names
            asked = {"topics": names, "isolation": "all"}
            positions = await server.http.post("/v1/namespaces/n/positions", json=asked)
            assert sorted(positions.json()["topics"]) == names
            assert all(positions.json()["topics"].values())
            size = await server.http.get("/v1/transactions/invalid/size")
            assert size.status_code == 200


async def test_a_request_waits_for_the_next_leader(servers: Sequence[SharingServer]) -> None:
    first, second = servers
    await first.http.put(topic("n1"))
    await second.stop_leading(1)
    first.hear(1, None)
    waiting = [asyncio.create_task(publish(each, "n1", f"{each.number}")) for each in servers]
    await until(lambda: [each.routing.held for each in servers] == [1, 1])
    assert not any(each.done() for each in waiting)
    await first.lead(1)
    second.hear(1, first)
    answers = [await each for each in waiting]
    assert [each.status_code for each in answers] == [200, 200]
    assert sorted(await payloads(second, "n1")) == ["1", "2"]
    assert [each.routing.held for each in servers] == [0, 0]
    may_wait = await second.http.post(f"{topic('n1')}/poll?wait=60", json={})
    assert len(may_wait.json()) == 2
    metrics = (await second.http.get("/metrics")).text
    assert 'tms_forwarded_total{outcome="answered"} 3.0' in metrics
    assert "tms_forward_seconds_count 2.0" in metrics


async def test_a_request_does_not_wait_for_ever(anyio_backend: str) -> None:
    async with sharing(1, hold_s=0.2) as [server]:
        answer = await publish(server, "n1")
        assert code_of(answer) == (503, "no_leader")
        assert answer.json()["error"]["detail"]["shard"] == 1
        assert answer.headers["tms-leader"] == "none"
        metrics = (await server.http.get("/metrics")).text
        assert 'tms_forwarded_total{outcome="no_leader"} 1.0' in metrics
        assert code_of(await server.http.get("/ready")) == (503, "no_leader")
        assert (await server.http.get("/health")).status_code == 200
        assert (await server.http.get("/v1/transactions?status=invalid")).json() == []
        for path in ("/v1/transactions/state?shard=1", "/v1/transactions/invalid/size?shard=0"):
            assert code_of(await server.http.get(path)) == (503, "no_leader")


async def test_a_shard_without_a_leader_is_named_and_the_others_are_served(
    anyio_backend: str,
) -> None:
    async with sharing(2, ShardBy.TOPIC, hold_s=0.01) as servers:
        first, second = servers
        await first.lead(0)
        second.hear(0, first)
        await second.lead(1)
        first.hear(1, second)
        for server in servers:
            ready = await server.http.get("/ready")
            assert ready.status_code == 200
            [warning] = ready.json()["warnings"]
            assert warning.startswith("shard 2: No server leads it.")
            started = await server.http.post(f"/v1/transactions?namespace=n{server.number - 1}")
            assert started.status_code == 200
            for path in ("", "?status=invalid", "/owners"):
                answer = await server.http.get(f"/v1/transactions{path}")
                assert answer.status_code == 200
                assert answer.headers["tms-missing-shards"] == "2"
            status = (await server.http.get("/v1/status")).json()
            assert status["missing_shards"] == [2]
            [finding] = [each for each in status["findings"] if each["kind"] == "shard_away"]
            assert finding["where"] == "shard 2"
            page = await server.http.get("/console/transactions")
            assert page.status_code == 200
            assert "Transactions of shard 2 are missing" in page.text
        assert len((await first.http.get("/v1/transactions")).json()) == 2

        for path in ("invalid/size", "state?shard=2", "?shard=2"):
            answer = await first.http.get(f"/v1/transactions/{path}".replace("/?", "?"))
            assert code_of(answer) == (503, "no_leader")
        truncation = {"before_ms": 1}
        answer = await first.http.post("/v1/transactions/invalid/truncate", json=truncation)
        assert code_of(answer) == (503, "no_leader")
        answer = await first.http.get("/v1/namespaces/n0/topics")
        assert code_of(answer) == (503, "no_leader")

        await first.lead(2)
        second.hear(2, first)
        for server in servers:
            assert "warnings" not in (await server.http.get("/ready")).json()
            assert "tms-missing-shards" not in (await server.http.get("/v1/transactions")).headers


async def test_a_leader_with_an_expired_lease_does_not_lead(
    servers: Sequence[SharingServer],
) -> None:
    first, _ = servers
    await first.http.put(topic("n0"))
    first.left_s = 0.0
    waiting = asyncio.create_task(publish(first, "n0"))
    await until(lambda: first.routing.held == 1)
    assert not waiting.done()
    first.left_s = 1.0
    assert (await waiting).status_code == 200


async def test_two_that_each_think_the_other_leads_refuse_soon(anyio_backend: str) -> None:
    async with shared() as (first, second):
        await second.stop_leading(1)
        second.hear(1, first)
        async with in_time():
            answers = await asyncio.gather(publish(first, "n1"), publish(second, "n1"))
    assert [code_of(each) for each in answers] == [(503, "no_leader")] * 2


async def test_who_says_to_be_a_server_is_not_forwarded(servers: Sequence[SharingServer]) -> None:
    first, _ = servers
    forged = {"TMS-Forwarded-By": "9", "TMS-Leader": "http://evil"}
    answer = await first.http.get(topic("n1"), headers=forged)
    assert code_of(answer) == (503, "no_leader")
    answer = await first.http.get(topic("n1"), headers={"TMS-Leader": "http://evil"})
    assert code_of(answer) == (404, "topic_not_found")
    assert answer.headers["tms-forwarded-by"] == "1"


@pytest.mark.parametrize(
    "given",
    ["-1", "3", "x", "", "1e0", "%D9%A3", "0x1", "1.0", "99999999999999999999", "1&shard=2"],
)
async def test_a_shard_that_is_none_is_refused(
    servers: Sequence[SharingServer], given: str
) -> None:
    for server in servers:
        answer = await server.http.get(f"/v1/transactions/invalid/size?shard={given}")
        assert code_of(answer) == (400, "invalid_query")


async def test_a_shard_that_is_named_is_asked_where_it_is_led(
    servers: Sequence[SharingServer],
) -> None:
    for server in servers:
        for shard in range(3):
            answer = await server.http.get(f"/v1/transactions/invalid/size?shard={shard}")
            assert answer.status_code == 200
            leads = (server.number == 1) == (shard == 0)
            assert (BY_BOTH in answer.headers) != leads
        assert code_of(await server.http.get("/v1/cleanup")) == (400, "shard_required")


async def test_a_shard_that_moves_while_many_publish_loses_and_refuses_nothing(
    servers: Sequence[SharingServer],
) -> None:
    first, second = servers
    await first.http.put(topic("n1"))
    done = asyncio.Event()
    acknowledged: list[str] = []

    async def work(server: SharingServer, worker: int) -> None:
        number = 0
        while not done.is_set():
            text = f"{worker}-{number}"
            answer = await publish(server, "n1", text)
            assert answer.status_code == 200, answer.text
            acknowledged.append(text)
            number += 1

    async with asyncio.TaskGroup() as tasks:
        for worker in range(8):
            tasks.create_task(work(servers[worker % 2], worker))
        leader, other = second, first
        for _ in range(6):
            more = len(acknowledged) + 10
            await until(lambda: len(acknowledged) >= more)  # noqa: B023  awaited at once
            await leader.stop_leading(1)
            other.hear(1, None)
            await turns(50)
            await other.lead(1)
            leader.hear(1, other)
            leader, other = other, leader
        done.set()
    found = await payloads(first, "n1")
    assert sorted(found) == sorted(acknowledged)
    assert len(acknowledged) > 20


async def test_who_is_cancelled_while_a_lead_ends_is_cancelled(anyio_backend: str) -> None:
    """Otherwise a task group in which one task has failed would continue without the others."""
    has_ended = False
    for count in range(TURNS_MAX):
        async with sharing(1) as [server]:
            await server.lead(1)
            ending = asyncio.create_task(server.stop_leading(1))
            await turns(count)
            has_ended = not ending.cancel()
            async with in_time():
                [outcome] = await asyncio.gather(ending, return_exceptions=True)
        if has_ended:
            break
        assert isinstance(outcome, asyncio.CancelledError), f"after {count} turns"
    assert has_ended


async def test_rows_of_a_topic_are_asked_of_its_leader(anyio_backend: str) -> None:
    async with shared() as [first, second]:
        await first.http.put(topic("n1"))
        for query in ("topic=t&namespace=n1", "topic=t&namespace=n1&shard=1"):
            answer = await first.http.get(f"/v1/debug/rows?table=metadata&{query}")
            assert answer.status_code == 200, answer.text
            assert answer.headers["tms-leader"] == second.url
            assert len(answer.json()["rows"]) == 1
        no_topic = await first.http.get("/v1/debug/rows?table=metadata")
        assert code_of(no_topic) == (400, "shard_required")
