"""Takes that wait while their taker loses the right: they end, and nothing stays leased."""

import asyncio

import httpx
import pytest

from tests.api.rest import TOPIC
from tests.api.security.asking import quick, take_away
from tests.api.security.secured import Pair, Server
from tests.waiting import WAIT_S_MAX, until
from tms.core.values.topic import TopicId
from tms.messaging.groups.service import GroupService
from tms.security.resources import Action

__all__ = ["quick"]

pytestmark = pytest.mark.anyio

T = TopicId("ns", "t")
GROUP = f"{TOPIC}/subscriptions/workers"
WAYS = ("directly", "forwarded")


@pytest.fixture
async def taker(pair: Pair) -> dict[str, str]:
    """The headers of somebody who may take from a group."""
    await pair.services.messaging.create_topic(T)
    await pair.services.groups.create_group(T, "workers")
    await pair.allow("ann", Action.TAKE, name="t")
    return await pair.token("ann")


def waiting(pair: Pair) -> int:
    groups = pair.services.groups
    assert isinstance(groups, GroupService)
    return sum(len(group.waiting) for group in groups._groups.loaded)


async def waiting_take(
    pair: Pair, server: Server, headers: dict[str, str]
) -> "asyncio.Task[httpx.Response]":
    """Start a take that waits for a message."""
    asked = server.http.post(f"{GROUP}/take?wait=20", json={"member": "a"}, headers=headers)
    taking = asyncio.create_task(asked)
    await until(lambda: waiting(pair) == 1)
    return taking


async def states(pair: Pair) -> list[tuple[str, int]]:
    found = await pair.services.groups.open_messages(T, "workers")
    return [(each.state, each.attempts) for each in found]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["token", "end", "rule"])
async def test_a_take_that_waits_ends(
    pair: Pair, taker: dict[str, str], way: str, what: str, quick: None
) -> None:
    if what == "end":
        taker = await pair.token("ann", expires_ms=pair.clock.now_ms() + 1000)
    taking = await waiting_take(pair, pair.servers[way], taker)
    status = await take_away(pair, what, taker)
    answer = await asyncio.wait_for(taking, WAIT_S_MAX)
    assert answer.status_code == status, answer.text
    await until(lambda: waiting(pair) == 0)
    await pair.services.messaging.publish(T, [b"secret"])
    assert (await pair.services.groups.group(T, "workers")).state.leased == 0


@pytest.mark.parametrize("what", ["token", "rule"])
async def test_a_message_that_comes_after_is_given_back(
    pair: Pair, taker: dict[str, str], what: str
) -> None:
    """A message leased before the right is checked again is neither returned nor kept leased."""
    taking = await waiting_take(pair, pair.leader, taker)
    status = await take_away(pair, what, taker)
    await pair.services.messaging.publish(T, [b"secret"])
    answer = await asyncio.wait_for(taking, WAIT_S_MAX)
    assert answer.status_code == status
    assert b"secret" not in answer.content
    assert await states(pair) == [("available", 0)]


async def test_what_was_taken_is_not_settled_any_more(pair: Pair, taker: dict[str, str]) -> None:
    await pair.services.messaging.publish(T, [b"1"])
    http = pair.leader.http
    taken = await http.post(f"{GROUP}/take", json={"member": "a"}, headers=taker)
    await take_away(pair, "rule", taker)
    acks = {"member": "a", "acks": [{"delivery": taken.json()["delivery"]}]}
    refused = await http.post(f"{GROUP}/settle", json=acks, headers=taker)
    assert refused.status_code == 404
    assert await states(pair) == [("leased", 0)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_taker_sees_its_group_and_changes_nothing_of_it(
    pair: Pair, taker: dict[str, str], way: str
) -> None:
    """A program's member reads the order of its group before it takes."""
    http = pair.servers[way].http
    assert (await http.get(GROUP, headers=taker)).json()["settings"]["order"] == "none"
    for method, path in (("GET", "/open"), ("DELETE", ""), ("PUT", "/settings")):
        refused = await http.request(method, f"{GROUP}{path}", headers=taker, json={})
        assert refused.status_code == 403, path
