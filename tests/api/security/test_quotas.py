"""A caller over its principal's limits learns when to retry; other callers notice nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from tests.api.rest import TOPIC, TOPICS, Wire, refusal
from tests.api.security.asking import waiting, waiting_poll
from tests.api.security.secured import Pair, Server, pair_of_servers
from tests.waiting import turns, until
from tms.core.limits import PrincipalLimits
from tms.core.values.topic import TopicId
from tms.security.quotas import SharedBounds
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

WAYS = ("directly", "forwarded")
PUBLISH = f"{TOPIC}/publish"
T = TopicId("ns", "t")


class Two:
    """Ann and Tom, who have the same rights."""

    def __init__(self, pair: Pair, ann: dict[str, str], tom: dict[str, str]) -> None:
        self.pair = pair
        self.ann = ann
        self.tom = tom


@asynccontextmanager
async def two(limits: PrincipalLimits, **options: Any) -> AsyncIterator[Two]:
    async with pair_of_servers(limits=limits, **options) as pair:
        await pair.services.messaging.create_topic(T)
        for who in ("ann", "tom"):
            await pair.allow(who, Action.PUBLISH, Action.CONSUME, Action.MANAGE)
        yield Two(pair, await pair.token("ann"), await pair.token("tom"))


def check_refused(answer: httpx.Response, setting: str) -> None:
    assert refusal(answer) == (429, "principal_rate_exceeded")
    assert answer.json()["error"]["detail"]["setting"] == setting
    assert int(answer.headers["retry-after"]) >= 1


async def publish(server: Server, headers: dict[str, str], text: str = "x") -> httpx.Response:
    return await server.http.post(PUBLISH, json={"messages": [text]}, headers=headers)


@pytest.mark.parametrize("way", WAYS)
async def test_requests(anyio_backend: object, way: str) -> None:
    async with two(PrincipalLimits(requests_per_s=2)) as both:
        server = both.pair.servers[way]
        for _ in range(2):
            assert (await publish(server, both.ann)).status_code == 200
        check_refused(await publish(server, both.ann), "principal_requests_per_s")
        assert (await publish(server, both.tom)).status_code == 200
        for _ in range(5):
            assert (await publish(server, both.pair.root)).status_code == 200
        both.pair.clock.advance(1000)
        assert (await publish(server, both.ann)).status_code == 200


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["bytes", "messages"])
async def test_publishes(anyio_backend: object, way: str, what: str) -> None:
    limits = {"bytes": PrincipalLimits(publish_bytes_per_s=100)}
    limits["messages"] = PrincipalLimits(publish_messages_per_s=1)
    async with two(limits[what]) as both:
        server = both.pair.servers[way]
        assert (await publish(server, both.ann, "x" * 100)).status_code == 200
        check_refused(await publish(server, both.ann), f"principal_publish_{what}_per_s")
        several = {"topics": {"t": ["x"]}}
        path = "/v1/namespaces/ns/publish"
        answer = await server.http.post(path, json=several, headers=both.ann)
        check_refused(answer, f"principal_publish_{what}_per_s")
        assert (await publish(server, both.tom)).status_code == 200
        polled = await server.http.post(f"{TOPIC}/poll", json={}, headers=both.ann)
        assert len(polled.json()) == 2
        both.pair.clock.advance(1000)
        assert (await publish(server, both.ann)).status_code == 200


@pytest.mark.parametrize("way", WAYS)
async def test_polls_that_wait(anyio_backend: object, way: str) -> None:
    async with two(PrincipalLimits(polls_max=1)) as both:
        server, path = both.pair.servers[way], f"{TOPIC}/poll"
        first = await waiting_poll(both.pair, server, both.ann)
        second = await server.http.post(f"{path}?wait=5", json={}, headers=both.ann)
        check_refused(second, "principal_polls_max")
        check_refused(
            await server.http.get(f"{TOPIC}/stream", headers=both.ann), "principal_polls_max"
        )
        assert (await server.http.post(path, json={}, headers=both.ann)).json() == []
        of_tom = asyncio.create_task(server.http.post(f"{path}?wait=5", json={}, headers=both.tom))
        await until(lambda: waiting(both.pair) == 2)
        first.cancel()
        await until(lambda: waiting(both.pair) == 1)
        again = asyncio.create_task(server.http.post(f"{path}?wait=5", json={}, headers=both.ann))
        await until(lambda: waiting(both.pair) == 2)
        await publish(server, both.tom)
        for each in (of_tom, again):
            assert len((await each).json()) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_if_nothing_is_set_one_leaves_room_for_the_polls_of_others(
    anyio_backend: object, way: str
) -> None:
    path = f"{TOPIC}/poll?wait=5"
    async with two(PrincipalLimits(), bounds=SharedBounds(connections_max=4)) as both:
        http = both.pair.servers[way].http

        def polling(headers: dict[str, str]) -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(http.post(path, json={}, headers=headers))

        first = [polling(both.ann) for _ in range(3)]
        await until(lambda: waiting(both.pair) == 3)
        refused = refusal(await http.post(path, json={}, headers=both.ann))
        assert refused == (429, "principal_rate_exceeded")
        others = [polling(both.tom), polling(both.pair.root), polling(both.pair.root)]
        await until(lambda: waiting(both.pair) == 6)
        await both.pair.revoke(both.ann)
        assert (await publish(both.pair.leader, both.pair.root)).status_code == 200
        assert {(await each).status_code for each in others} == {200}
        await asyncio.gather(*first, return_exceptions=True)
        for server in both.pair.servers.values():
            quotas = server.access._quotas
            assert quotas is not None
            await until(lambda: quotas.polls.used == 0)  # noqa: B023  awaited at once


async def test_a_connection_that_was_let_in_before_counts_on(anyio_backend: object) -> None:
    async with two(PrincipalLimits(), bounds=SharedBounds(connections_max=3)) as both:
        server = both.pair.leader
        wires = [await server.connect() for _ in range(3)]
        for _ in range(3):  # decided the first time, cached afterwards
            found = [await asked(wire, both.ann) for wire in wires]
            assert found == [200, 200, 429]
        assert server.access._decisions, "they are kept though connections are counted"
        assert await asked(wires[2], both.tom) == 200
        for each in wires:
            await each.close()


async def asked(wire: Wire, headers: dict[str, str]) -> int:
    await wire.send("GET", TOPIC, headers=headers)
    return (await wire.answer())[0]


@pytest.mark.parametrize("way", WAYS)
async def test_connections(anyio_backend: object, way: str) -> None:
    async with two(PrincipalLimits(connections_max=1)) as both:
        server = both.pair.servers[way]
        first, second, third = [await server.connect() for _ in range(3)]
        for _ in range(2):
            assert await asked(first, both.ann) == 200
            assert await asked(second, both.ann) == 429
            assert await asked(third, both.tom) == 200
        # A connection that another principal continues to use counts as theirs.
        assert await asked(third, both.ann) == 429
        assert await asked(first, both.tom) == 429
        await first.close()

        async def may_ask() -> bool:
            return await asked(second, both.ann) == HTTPStatus.OK

        await until(may_ask)
        for each in (second, third):
            await each.close()


async def test_connections_of_a_standby_are_nobodys(anyio_backend: object) -> None:
    async with two(PrincipalLimits(connections_max=1)) as both:
        wires = [await both.pair.standby.connect() for _ in range(2)]
        for _ in range(10):
            found = await asyncio.gather(asked(wires[0], both.ann), asked(wires[1], both.tom))
            assert tuple(found) == (200, 200)
        for each in wires:
            await each.close()


async def test_bodies_that_are_arriving(anyio_backend: object) -> None:
    async with two(PrincipalLimits(arriving_bytes_max=1000)) as both:
        server = both.pair.leader
        body = json.dumps({"messages": ["x" * 5000]}).encode()

        async def begun(headers: dict[str, str], size: int) -> Wire:
            wire = await server.connect()
            length = {"content-length": str(len(body)), "content-type": "application/json"}
            await wire.send("POST", PUBLISH, body[:size], {**length, **headers})
            return wire

        async def finish(wire: Wire, size: int) -> int:
            for at in range(size, len(body), 500):
                wire.writer.write(body[at : at + 500])
                await turns(5)
            status, _, _ = await wire.answer()
            await wire.close()
            return status

        assert await finish(await begun(both.ann, 500), 500) == 200, "no other is arriving"
        first = await begun(both.ann, 900)
        use = both.pair.leader.access._quotas.of("ann")  # type: ignore[union-attr]
        await until(lambda: use.arriving_bytes.count == 900)
        second = await begun(both.ann, 200)
        assert (await second.answer())[0] == 429
        await second.close()
        assert await finish(await begun(both.tom, 500), 500) == 200
        assert await finish(first, 900) == 200
        assert use.arriving_bytes.count == 0


@pytest.mark.parametrize("way", WAYS)
async def test_topics(anyio_backend: object, way: str) -> None:
    async with two(PrincipalLimits(topics_per_hour=1)) as both:
        http = both.pair.servers[way].http
        assert (await http.put(f"{TOPICS}/a", headers=both.ann)).status_code == 200
        refused = await http.put(f"{TOPICS}/b", headers=both.ann)
        check_refused(refused, "principal_topics_per_hour")
        assert (await http.put(f"{TOPICS}/c", headers=both.tom)).status_code == 200
        both.pair.clock.advance(3600 * 1000)
        assert (await http.put(f"{TOPICS}/b", headers=both.ann)).status_code == 200


async def test_of_denials_and_uses_the_audit_tells(anyio_backend: object) -> None:
    async with two(PrincipalLimits()) as both:
        server, pair = both.pair.leader, both.pair
        for _ in range(3):
            await publish(server, both.ann)
            await publish(server, {"authorization": "Bearer canary"})
        nobody = await pair.token("nobody")
        for _ in range(2):
            await publish(server, nobody)
            await server.http.put(TOPIC, headers=both.ann)
        pair.clock.advance(60_000)
        await publish(server, both.ann)

        told = [json.loads(line) for line in server.audited.lines]
        found = [
            (each["action"], each["principal"], each["effect"], each["status"], each["resource"])
            for each in told
        ]
        assert found == [
            ("publish", "ann", "allow", 200, "ns:t"),
            ("authenticate", None, "deny", 401, PUBLISH),
            *[
                ("publish", "nobody", "deny", 404, "ns:t"),
                ("manage", "ann", "allow", 409, "ns:t"),
            ]
            * 2,
            ("publish", "ann", "allow", 200, "ns:t"),
        ]
        assert {each["address"] for each in told} == {"127.0.0.1"}
        rules = {rule.id for rule in server.grants.rules}
        assert {each["rule"] for each in told if each["effect"] == "allow"} <= rules
        assert b"canary" not in b"".join(server.audited.lines)
