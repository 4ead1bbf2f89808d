"""Shares in forwarding: no caller, known or not, can block the requests of others."""

import asyncio

import httpx
import pytest

from api.cluster import forward_shares
from api.cluster.forward_shares import ForwardShares
from tests.api.cluster.sharing import shared, topic
from tests.api.cluster.standing_by import Second, leader, second
from tests.api.rest import Wire
from tests.api.security.secured import Pair, pair
from tests.waiting import turns, until
from tms.core.errors import TooManyConnections

__all__ = ["leader", "pair", "second"]
pytestmark = pytest.mark.anyio


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(forward_shares, "FORWARDED_MAX", 10)
    return 10


async def test_one_caller_leaves_room_for_others_and_waits_in_turn(
    few: int, anyio_backend: str
) -> None:
    shares = ForwardShares()
    entered: list[str] = []

    async def enter(sharer: str) -> None:
        await shares.enter(sharer)
        entered.append(sharer)

    tasks = [asyncio.create_task(enter("a")) for _ in range(few + 5)]
    await turns(2)
    assert entered == ["a"] * (few - 1)
    await asyncio.wait_for(enter("b"), 60)
    tasks += [asyncio.create_task(enter("c")) for _ in range(2)]
    await turns(2)
    assert entered.count("c") == 0, "there is no room at all"
    shares.leave("a")
    await turns(2)
    assert entered[-1] == "c", "it had less than its reserve"
    for sharer in (*["a"] * (few - 2), "b", "c"):
        shares.leave(sharer)
    await asyncio.wait(tasks)
    assert entered.count("a") == few + 5
    while shares._shares.used:
        shares.leave("a" if shares._shares.used_by("a") else "c")
    assert not shares._waiting


async def test_a_wait_ends_and_leaves_nothing(
    few: int, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    monkeypatch.setattr(forward_shares, "WAIT_S_MAX", 0.01)
    shares = ForwardShares()
    for _ in range(few - 1):
        await shares.enter("a")
    with pytest.raises(TooManyConnections):
        await shares.enter("a")
    assert not shares._waiting
    monkeypatch.setattr(forward_shares, "WAIT_S_MAX", 60.0)
    for later in range(4):
        waiting = asyncio.create_task(shares.enter("a"))
        await turns(2)
        shares.leave("a")
        await turns(later)
        waiting.cancel()
        await asyncio.wait([waiting])
        if waiting.cancelled():
            await shares.enter("a")
        assert shares._shares.used == few - 1
        assert not shares._waiting


async def test_strangers_that_send_slowly_do_not_stop_forwarding(few: int, pair: Pair) -> None:
    url = pair.standby.http.base_url
    head = f"POST /console/sign-in HTTP/1.1\r\nhost: {url.host}:{url.port}\r\n".encode()
    head += b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\ntok"
    wires = []
    for _ in range(2 * few):
        wire = Wire(*await asyncio.open_connection(url.host, url.port))
        wire.writer.write(head)
        await wire.writer.drain()
        wires.append(wire)
    for _ in range(3):
        answer = await pair.standby.http.get("/v1/transactions", headers=pair.root)
        assert answer.status_code == 200
        assert not pair.forwarder._shares._shares.used, "they hold nothing"
    for wire in wires:
        wire.writer.close()


async def test_waiting_polls_of_one_address_leave_room(few: int) -> None:
    async with shared() as [first, second]:
        await first.http.put(topic("n1"))
        url = f"{topic('n1')}/poll?wait=60"
        polls = [asyncio.create_task(first.http.post(url, json={})) for _ in range(few + 2)]
        forwarder = first.routing._forwarders[1]
        await until(lambda: len(forwarder._shares._waiting) == 1)
        assert forwarder._shares._shares.used == few - 1
        assert (await second.http.get(topic("n1"))).status_code == 200
        for poll in polls:
            poll.cancel()
        await asyncio.wait(polls)
        await until(lambda: not forwarder._shares._shares.used)
        assert (await first.http.get(topic("n1"))).status_code == 200


async def test_callers_behind_a_trusted_proxy_have_a_share_each(few: int, second: Second) -> None:
    path, topics = "/v1/namespaces/ns/topics/t", "/v1/namespaces/ns/topics"
    assert (await second.http.put(path, json={})).status_code == 200

    def ask(address: str) -> asyncio.Task[httpx.Response]:
        waiting = second.http.post(
            f"{path}/poll?wait=60", json={}, headers={"x-forwarded-for": address}
        )
        return asyncio.create_task(waiting)

    waiting = [ask("10.0.0.1") for _ in range(few - 1)]
    await until(lambda: second.forwarder._shares._shares.room("address 10.0.0.1") <= 0)
    answer = await second.http.get(topics, headers={"x-forwarded-for": "10.0.0.2"})
    assert (answer.status_code, answer.json()) == (200, ["t"])
    await second.http.post(f"{path}/publish", json={"messages": ["x"]})
    assert {each.status_code for each in await asyncio.gather(*waiting)} == {200}
