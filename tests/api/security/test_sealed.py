"""Only servers of the cluster can name a caller, and each seal is good for one request, once."""

import asyncio
import json
from functools import partial
from typing import Any

import httpx
import pytest

from tests.api.rest import TOPIC, refusal
from tests.api.security.secured import Pair
from tests.waiting import turns, until
from tms.core.values.topic import TopicId
from tms.security.forwards import HEADER, Sealer, server_identity
from tms.security.resources import Action
from tms.security.rules import Identity

pytestmark = pytest.mark.anyio

ANN = Identity("ann")
PUBLISH = f"{TOPIC}/publish"
BODY = json.dumps({"messages": ["x"]}).encode()
REFUSED = (401, "credentials_invalid")
AT_ONCE = 10
DAY_MS = 24 * 3600 * 1000


class Forging:
    """Sends requests to the leader as another server would, or an impostor."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.sealer = Sealer(pair.standby.keys, "9", pair.clock)

    def seal(
        self,
        identity: Identity | None = ANN,
        *,
        method: str = "POST",
        path: str = PUBLISH,
        query: bytes = b"",
        body: bytes | int | None = BODY,
        target: str = "",
    ) -> str:
        target = target or self.pair.leader.url
        sealed = self.sealer.seal(identity, method, path, query, target=target, body=body)
        return sealed.decode()

    async def send(
        self,
        header: str,
        method: str = "POST",
        path: str = PUBLISH,
        body: bytes = BODY,
        **more: str,
    ) -> httpx.Response:
        named = {HEADER: header, "content-type": "application/json", **more}
        return await self.pair.leader.http.request(method, path, content=body, headers=named)

    async def count(self) -> int:
        """Return how many messages there are."""
        root = self.pair.root
        body = {"limit": 1000}
        polled = await self.pair.leader.http.post(f"{TOPIC}/poll", json=body, headers=root)
        return len(polled.json())


@pytest.fixture
async def forging(pair: Pair) -> Forging:
    await pair.services.messaging.create_topic(TopicId("ns", "t"))
    await pair.allow("ann", Action.PUBLISH, name="t")
    return Forging(pair)


async def test_what_is_sealed_is_taken_once(forging: Forging) -> None:
    header = forging.seal()
    assert (await forging.send(header)).status_code == 200
    assert refusal(await forging.send(header)) == REFUSED
    assert await forging.count() == 1
    for line in forging.pair.leader.audited.lines:
        told = json.loads(line)
        if told["action"] == "publish":
            assert (told["principal"], told["via"], told["mechanism"]) == ("ann", "9", "forward")


async def test_what_is_altered_is_refused(forging: Forging) -> None:
    root, other = Identity("root"), forging.pair.standby.url
    wrong: list[tuple[str, dict[str, Any]]] = [
        (forging.seal(method="PUT"), {}),
        (forging.seal(path=f"{TOPIC}/store"), {}),
        (forging.seal(path="/v1/namespaces/ns/topics/u/publish"), {}),
        (forging.seal(query=b"ids=true"), {}),
        (forging.seal(body=b"{}"), {}),
        (forging.seal(body=len(BODY) + 1), {}),
        (forging.seal(body=None), {}),
        (forging.seal(target=other), {}),
        (forging.seal(), {"path": f"{PUBLISH}?ids=true"}),
        (forging.seal(), {"path": f"{TOPIC}/%70ublish"}),
        (forging.seal(), {"body": BODY.replace(b"x", b"y")}),
        (forging.seal(), {"body": BODY + b" "}),
        (forging.seal().replace("who=ann", "who=root"), {}),
        (forging.seal(root)[:-43] + "A" * 43, {}),
    ]
    for at, (header, changed) in enumerate(wrong):
        assert refusal(await forging.send(header, **changed)) == REFUSED, at
    assert await forging.count() == 0


@pytest.mark.parametrize("text", [b"x", b"y"])
async def test_a_body_that_comes_in_parts_is_the_one_that_was_sealed(
    forging: Forging, text: bytes
) -> None:
    sent = BODY.replace(b"x", text)
    for length, claim in ((len(BODY), BODY), (len(BODY), len(BODY)), (0, BODY), (0, None)):
        before = await forging.count()
        wire = await forging.pair.leader.connect()
        framing = {"content-length": str(length)} if length else {"transfer-encoding": "chunked"}
        named = {HEADER: forging.seal(body=claim), "content-type": "application/json", **framing}
        await wire.send("POST", PUBLISH, b"", named)
        for part in (sent[:7], sent[7:]):
            await turns(5)
            chunk = part if length else b"%x\r\n%s\r\n" % (len(part), part)
            wire.writer.write(chunk)
        if not length:
            await turns(5)
            wire.writer.write(b"0\r\n\r\n")
        status, _, _ = await wire.answer()
        await wire.close()
        is_covered = isinstance(claim, bytes)
        assert status == (401 if is_covered and sent != BODY else 200), (length, claim)
        assert await forging.count() == before + (status == 200)


async def test_what_a_client_says_is_never_taken_for_what_a_server_says(forging: Forging) -> None:
    pair = forging.pair
    token = await pair.token("ann")
    stranger = Sealer(_Guessed(), "1", pair.clock)
    guessed = stranger.seal(
        Identity("root"), "POST", PUBLISH, b"", target=pair.leader.url, body=BODY
    )
    said = [
        "root",
        "v1;who=root",
        guessed.decode(),
        forging.seal(Identity("root")),
    ]
    for server in pair.servers.values():
        for each in said[: 4 if server is pair.standby else 3]:
            for credentials in ({}, token):
                named = {HEADER: each, "content-type": "application/json", **credentials}
                answer = await server.http.post(PUBLISH, content=BODY, headers=named)
                assert refusal(answer) == REFUSED
    assert await forging.count() == 0


class _Guessed:
    """Keys of an attacker who has none of the cluster's."""

    def sealing(self) -> tuple[str, bytes]:
        return "0" * 16, b"0" * 32

    def valid(self, key_id: str) -> bytes | None:
        return self.sealing()[1] if key_id else None


async def test_a_server_by_itself_may_do_nothing_but_what_the_service_does(
    forging: Forging,
) -> None:
    own = server_identity("9")
    assert refusal(await forging.send(forging.seal(own)))[0] in (403, 404)
    for method, path in (
        ("GET", "/v1/transactions"),
        ("GET", "/metrics"),
        ("PUT", "/v1/namespaces/ns"),
        ("PUT", "/v1/namespaces/system/topics/mine"),
    ):
        sealed = forging.seal(own, method=method, path=path, body=b"")
        assert (await forging.send(sealed, method, path, b"")).status_code in (403, 404), path
    path = "/v1/namespaces/system/topics/_schemas"
    sealed = forging.seal(own, method="PUT", path=path, body=b"")
    made = await forging.send(sealed, "PUT", path, b"", **{"tms-part": "registry"})
    assert made.status_code == 200


async def test_nobody_has_a_name_that_means_a_server(pair: Pair) -> None:
    await pair.allow("*", Action.CONSUME)
    for name in ("server:9", "anonymous", "*", "group:g"):
        headers = await pair.token(name)
        for server in pair.servers.values():
            answer = await server.http.get("/v1/namespaces", headers=headers)
            assert refusal(answer) == REFUSED


async def test_keys_are_changed_while_requests_are_passed_on(forging: Forging) -> None:
    pair = forging.pair
    token = await pair.token("ann")

    async def publish_some() -> None:
        sent = [
            pair.standby.http.post(PUBLISH, json={"messages": ["x"]}, headers=token)
            for _ in range(AT_ONCE)
        ]
        for answer in await asyncio.gather(*sent):
            assert answer.status_code == 200, answer.text

    used = set()
    for _ in range(4):
        await publish_some()
        key = pair.standby.keys.sealing()[0]
        used.add(key)
        pair.clock.advance(DAY_MS)
        await publish_some()
        await until(partial(_is_renewed, pair, key))
        await publish_some()
        pair.clock.advance(61_000)
        assert pair.standby.keys.sealing()[0] != key
    assert len(used) == 4
    assert await forging.count() == 4 * 3 * AT_ONCE


def _is_renewed(pair: Pair, key: str) -> bool:
    """Whether both servers have the same newest key, and it is a new one."""
    newest = {server.keys._keys[0].id for server in pair.servers.values()}
    return len(newest) == 1 and key not in newest
