"""Requests of servers that share shards go one hop and are sent once; anything else fails."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from api.cluster.forwarding import _Forwarded
from api.cluster.routing import ShardRouting
from api.http.endpoint import FORWARDED_BY
from api.http.exchange import Exchange
from tests.api.cluster.peers import Talk, peer_that
from tests.api.cluster.sharing import code_of, publish, sharing, topic
from tms.core.errors import NoLeader

pytestmark = pytest.mark.anyio


async def a_request_goes_one_hop() -> None:
    """Ask a server that takes the second one for the leader, which takes the third one for it."""
    async with sharing(3) as [first, second, third]:
        await third.lead(1)
        await third.http.put(topic("n1"))
        second.hear(1, third)
        first.hear(1, second)
        assert (await publish(first, "n1")).status_code == 503


async def what_was_sent_is_sent_once() -> None:
    """Ask a server whose leader reads requests, then breaks the connections."""
    asked: list[bytes] = []

    async def take(talk: Talk) -> None:
        asked.append(await talk.request())

    async with sharing(1) as [server], peer_that(take) as peer:
        server.routing.set_leader(1, peer.url, "")
        assert code_of(await publish(server, "n1")) == (504, "outcome_unknown")
        assert (
            'tms_forwarded_total{outcome="broken"} 1.0' in (await server.http.get("/metrics")).text
        )
    assert len(asked) == 1


def one_hop(patch: pytest.MonkeyPatch) -> None:
    forward = ShardRouting.forward

    async def further(self: ShardRouting, shard: int, exchange: Exchange, until_s: float) -> bool:
        cast("dict[bytes, bytes]", exchange.headers).pop(FORWARDED_BY, None)
        return await forward(self, shard, exchange, until_s)

    patch.setattr(ShardRouting, "forward", further)


def only_what_was_not_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Forwarded, "_typed", lambda *_: NoLeader())


Story = Callable[[], Awaitable[None]]
CASES = [(a_request_goes_one_hop, one_hop), (what_was_sent_is_sent_once, only_what_was_not_sent)]


@pytest.mark.parametrize("story", [story for story, _ in CASES])
async def test_with_its_guard_a_story_ends_well(story: Story) -> None:
    await story()


@pytest.mark.parametrize(("story", "switch_off"), CASES)
async def test_without_its_guard_a_story_fails(
    monkeypatch: pytest.MonkeyPatch,
    story: Story,
    switch_off: Callable[[pytest.MonkeyPatch], None],
) -> None:
    switch_off(monkeypatch)
    with pytest.raises(AssertionError):
        await story()
