"""A server that has not reached its metadata store for long admits superusers alone."""

import asyncio
from typing import Any

import pytest

from tests.api.rest import TOPIC, refusal
from tests.api.security.asking import quick, waiting_poll
from tests.api.security.secured import Pair, Server, pair_of_servers
from tests.waiting import WAIT_S_MAX, until
from tms.core.values.topic import TopicId
from tms.metadata.local import LocalSession
from tms.security.resources import Action

__all__ = ["quick"]

pytestmark = pytest.mark.anyio

STALE_S = 0.1
UNAVAILABLE = (503, "rules_unavailable")


async def lose(pair: Pair, server: Server) -> None:
    """Keep a server from its store until the rights that it has cached are stale."""
    host: Any = server.store._host
    host.disconnect(server.store)
    pair.clock.advance(int(STALE_S * 1000))
    await until(lambda: server.grants.is_stale)


@pytest.mark.parametrize("lost", ["directly", "forwarded"])
async def test_what_is_too_old_holds_for_superusers_alone(
    anyio_backend: object, lost: str, quick: None
) -> None:
    async with pair_of_servers(stale_s_max=STALE_S) as pair:
        await pair.services.messaging.create_topic(TopicId("ns", "t"))
        await pair.allow("ann", Action.PUBLISH, Action.CONSUME)
        ann, server = await pair.token("ann"), pair.servers[lost]
        publish = f"{TOPIC}/publish"
        body = {"messages": ["x"]}
        polling = await waiting_poll(pair, server, ann)

        await lose(pair, server)
        assert refusal(await asyncio.wait_for(polling, WAIT_S_MAX)) == UNAVAILABLE
        for _ in range(2):
            for path in (publish, f"{TOPIC}/poll"):
                answer = await server.http.post(path, json=body, headers=ann)
                assert refusal(answer) == UNAVAILABLE
                assert answer.headers["retry-after"]
            assert refusal(await server.http.get("/v1/namespaces", headers=ann)) == UNAVAILABLE
            sent = await server.http.post(publish, json=body, headers=pair.root)
            assert sent.status_code == 200
            assert (await server.http.get("/ping")).status_code == 200
            assert (await server.http.post(publish, json=body)).status_code == 401

        host: Any = server.store._host
        host.reconnect(server.store)
        await until(lambda: not server.grants.is_stale)
        assert (await server.http.post(publish, json=body, headers=ann)).status_code == 200


@pytest.mark.parametrize("silent", ["directly", "forwarded"])
async def test_silence_is_enough_before_a_connection_is_lost(
    anyio_backend: object, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair_of_servers(stale_s_max=5) as pair:
        await pair.services.messaging.create_topic(TopicId("ns", "t"))
        await pair.allow("ann", Action.PUBLISH)
        ann, server = await pair.token("ann"), pair.servers[silent]
        path, body, since_ms = f"{TOPIC}/publish", {"messages": ["x"]}, pair.clock.steady_ms()

        def silent_ms(session: LocalSession) -> int:
            return pair.clock.steady_ms() - since_ms if session is server.store else 0

        for _ in range(3):  # earlier decisions are cached
            assert (await server.http.post(path, json=body, headers=ann)).status_code == 200
        monkeypatch.setattr(LocalSession, "silent_ms", property(silent_ms))
        pair.clock.advance(4_999)
        assert (await server.http.post(path, json=body, headers=ann)).status_code == 200
        pair.clock.advance(1)
        for _ in range(3):
            assert refusal(await server.http.post(path, json=body, headers=ann)) == UNAVAILABLE
            sent = await server.http.post(path, json=body, headers=pair.root)
            assert sent.status_code == 200
        other = pair.leader if silent == "forwarded" else pair.standby
        answer = await other.http.post(path, json=body, headers=ann)
        assert answer.status_code == (200 if silent == "forwarded" else 503)
