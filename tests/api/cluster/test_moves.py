"""While a shard moves again and again, its many users see some latency and no error."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import httpx
import pytest

from api.cluster import routing, ways
from tests.api.cluster.sharing import SharingServer, shared, topic
from tests.api.rest import Wire
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX, turns, until

pytestmark = pytest.mark.anyio

TOPIC = topic("n1")
GROUP = f"{TOPIC}/subscriptions/workers"
LARGE = "x" * 200_000
WORKERS = 6
Work = Callable[[SharingServer, int], Awaitable[object]]


@pytest.fixture
async def servers(anyio_backend: str) -> AsyncIterator[Sequence[SharingServer]]:
    """Two servers that hold a request for as long as a test waits."""
    async with shared(hold_s=WAIT_S_MAX) as servers:
        yield servers


def body_of(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


async def move_during(servers: Sequence[SharingServer], work: Work, moves: int) -> None:
    """Move shard 1 there and back while both servers do the given work."""
    leader, other = servers[1], servers[0]
    done = [0]
    is_over = False

    async def again_and_again(worker: int) -> None:
        while not is_over:
            await work(servers[worker % 2], worker)
            done[0] += 1

    async with asyncio.TaskGroup() as tasks:
        for worker in range(WORKERS):
            tasks.create_task(again_and_again(worker))
        for number in range(moves):
            more = done[0] + WORKERS
            await until(lambda: done[0] >= more)  # noqa: B023  awaited at once
            await turns(number % 7)
            await leader.stop_leading(1)
            other.hear(1, None)
            await turns(20)
            await other.lead(1)
            leader.hear(1, other)
            leader, other = other, leader
        is_over = True


async def test_a_lease_that_runs_over_a_move_counts(servers: Sequence[SharingServer]) -> None:
    first = servers[0]
    await first.http.put(TOPIC)
    body_of(await first.http.put(GROUP, json={"kind": "shared"}))
    settled: list[str] = []

    async def work(server: SharingServer, worker: int) -> None:
        texts = [f"{worker} {len(settled)} {each}" for each in range(5)]
        body_of(await server.http.post(f"{TOPIC}/publish?ids=true", json={"messages": texts}))
        asked = {"member": str(worker), "messages": 5}
        taken = body_of(await server.http.post(f"{GROUP}/take?wait=0", json=asked))
        if not taken["messages"]:
            return
        acks = [{"delivery": taken["delivery"]}]
        answer = await server.http.post(
            f"{GROUP}/settle", json={"member": str(worker), "acks": acks}
        )
        found = body_of(answer)
        assert not found.get("refused"), found
        settled.extend(each["payload"] for each in taken["messages"])

    await move_during(servers, work, scaled(60))
    assert len(settled) == len(set(settled)), "one was given twice"


async def test_a_large_body_waits_for_the_next_leader(servers: Sequence[SharingServer]) -> None:
    first = servers[0]
    await first.http.put(TOPIC)
    published = 0

    async def work(server: SharingServer, _: int) -> None:
        nonlocal published
        body_of(await server.http.post(f"{TOPIC}/publish?ids=true", json={"messages": [LARGE]}))
        published += 1

    await move_during(servers, work, scaled(30))
    polled = body_of(await first.http.post(f"{TOPIC}/poll", json={"limit": 100_000}))
    assert len(polled) == published


async def test_an_answer_is_not_cut_in_the_middle(servers: Sequence[SharingServer]) -> None:
    first = servers[0]
    await first.http.put(TOPIC)
    for _ in range(20):
        body_of(await first.http.post(f"{TOPIC}/publish?ids=true", json={"messages": [LARGE]}))

    async def work(server: SharingServer, _: int) -> None:
        assert len(body_of(await server.http.post(f"{TOPIC}/poll", json={}))) == 20

    await move_during(servers, work, scaled(30))


async def test_lists_and_groups_wait_for_the_next_leader(servers: Sequence[SharingServer]) -> None:
    first = servers[0]
    await first.http.put(TOPIC)
    body_of(await first.http.put(GROUP, json={"kind": "shared"}))

    async def work(server: SharingServer, worker: int) -> None:
        for path in (
            "/v1/transactions",
            "/v1/transactions/owners",
            "/v1/transactions/invalid/size",
            f"{TOPIC}/subscriptions",
            GROUP,
            f"{GROUP}/open",
            "/v1/namespaces/n1/topics",
        ):
            body_of(await server.http.get(path))
        started = body_of(await server.http.post("/v1/transactions?namespace=n1"))
        texts = {"topics": {"t": [f"{worker}"]}}
        body_of(await server.http.post("/v1/namespaces/n1/publish", json=texts))
        ended = await server.http.post(f"/v1/transactions/{started['transaction_id']}/commit")
        assert ended.status_code == 200, ended.text

    await move_during(servers, work, scaled(30))


async def test_a_body_that_comes_behind_its_head_waits_too(
    servers: Sequence[SharingServer],
) -> None:
    first, second = servers
    await first.http.put(TOPIC)
    url, body = second.http.base_url, b'{"messages": ["m"]}'
    head = f"POST {TOPIC}/publish?ids=true HTTP/1.1\r\nhost: {url.host}:{url.port}\r\n".encode()
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    wire = Wire(*await asyncio.open_connection(url.host, url.port))
    wire.writer.write(head)
    await until(lambda: second.routing.at_work[1])
    await second.stop_leading(1)
    first.hear(1, None)
    wire.writer.write(body)
    await until(lambda: second.routing.held == 1)
    await first.lead(1)
    second.hear(1, first)
    assert await wire.reader.readline() == b"HTTP/1.1 200 OK\r\n"
    wire.writer.close()


async def test_a_read_that_is_interrupted_is_done_again(
    servers: Sequence[SharingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "GRACE_S", 0.0)
    first, second = servers
    await first.http.put(TOPIC)
    polling = asyncio.create_task(first.http.post(f"{TOPIC}/poll?wait=60", json={}))
    await until(lambda: second.routing.at_work[1])
    await first.lead(1)
    first.hear(1, None)
    await until(lambda: first.routing.at_work[1])
    body_of(await first.http.post(f"{TOPIC}/publish?ids=true", json={"messages": ["m"]}))
    assert len(body_of(await polling)) == 1


async def test_what_waits_at_a_leader_continues_if_that_was_only_not_heard_of(
    servers: Sequence[SharingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "GRACE_S", 0.0)
    first, second = servers
    await first.http.put(TOPIC)
    body_of(await first.http.put(GROUP, json={"kind": "shared"}))
    taking = asyncio.create_task(first.http.post(f"{GROUP}/take?wait=60", json={"member": "a"}))
    await until(lambda: second.routing.at_work[1])
    first.hear(1, None)
    first.hear(1, second)
    await turns(20)
    body_of(await first.http.post(f"{TOPIC}/publish?ids=true", json={"messages": ["m"]}))
    assert len(body_of(await taking)["messages"]) == 1


async def test_a_body_that_the_last_leader_did_not_get_whole_goes_to_the_next_one(
    servers: Sequence[SharingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "GRACE_S", 0.0)
    first, second = servers
    await first.http.put(TOPIC)
    url, body = first.http.base_url, json.dumps({"messages": [LARGE]}).encode()
    head = f"POST {TOPIC}/publish?ids=true HTTP/1.1\r\nhost: {url.host}:{url.port}\r\n".encode()
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    wire = Wire(*await asyncio.open_connection(url.host, url.port))
    wire.writer.write(head + body[:100_000])
    await until(lambda: second.routing.at_work[1])
    await first.lead(1)
    first.hear(1, None)
    await turns(20)
    wire.writer.write(body[100_000:])
    assert (await wire.answer())[0] == 200
    assert len(body_of(await first.http.post(f"{TOPIC}/poll", json={}))) == 1
    await wire.close()


async def test_an_answer_whose_client_is_slow_is_given_to_its_end(
    servers: Sequence[SharingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "DRAIN_S", 0.0)
    first, second = servers
    await first.http.put(TOPIC)
    for _ in range(100):
        body_of(await first.http.post(f"{TOPIC}/publish?ids=true", json={"messages": [LARGE]}))
    url = second.http.base_url
    head = f"POST {TOPIC}/poll HTTP/1.1\r\nhost: {url.host}:{url.port}\r\n".encode()
    wire = Wire(*await asyncio.open_connection(url.host, url.port))
    wire.writer.write(head + b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
    await wire.reader.readuntil(b"\r\n\r\n")
    leaving = asyncio.create_task(second.stop_leading(1))
    await turns(50)
    assert not leaving.done()
    size = 0
    while (length := int(await wire.reader.readline(), 16)) > 0:
        size += len(await wire.reader.readexactly(length + 2))
    assert size > 100 * len(LARGE)
    await leaving
    await wire.close()
