"""JSON Web Tokens are accepted if a key that the issuer serves signed them, and not otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.api.rest import NOW_MS, TOPIC, refusal
from tests.api.security.secured import Pair, pair_of_servers
from tests.manual_clock import ManualClock
from tests.security.web_keys import EC, ED, KEYS, RSA, KeyServer, jwk, key_set
from tests.waiting import WAIT_S_MAX
from tms.core.values.topic import TopicId
from tms.security.json_web_keys import UNKNOWN_EVERY_MS, WebKeys
from tms.security.json_web_tokens import WebTokenVerifier
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

REFUSED = (401, "credentials_invalid")
PUBLISH = f"{TOPIC}/publish"
NOW_S = NOW_MS // 1000


def token(name: str, key: Any = None, algorithm: str = "", **claims: Any) -> dict[str, str]:
    """Return headers with a token that the key of this name signed."""
    told = {
        "iss": "https://issuer",
        "aud": "tms",
        "sub": "ann",
        "nbf": NOW_S - 60,
        "exp": NOW_S + 600,
        **claims,
    }
    told = {each: value for each, value in told.items() if value is not None}
    encoded = jwt.encode(
        told, key or KEYS[name], algorithm=algorithm or name, headers={"kid": name}
    )
    return {"authorization": f"Bearer {encoded}"}


class Issued:
    """Servers that take an issuer's tokens, and the server of its keys."""

    def __init__(self, pair: Pair, issuer: KeyServer, clock: ManualClock) -> None:
        self.pair = pair
        self.issuer = issuer
        self.clock = clock

    async def publish(self, headers: dict[str, str]) -> tuple[int, str]:
        answers = [
            await server.http.post(PUBLISH, json={"messages": ["x"]}, headers=headers)
            for server in self.pair.servers.values()
            for _ in range(2)
        ]
        found = {(200, "") if each.is_success else refusal(each) for each in answers}
        assert len(found) == 1, found
        return found.pop()


@asynccontextmanager
async def issued_by(issuer: KeyServer) -> AsyncIterator[Issued]:
    clock = ManualClock(NOW_MS)
    keys = WebKeys(issuer.url, clock, issuer.ca_file)
    await keys.open()
    verifier = WebTokenVerifier(keys, "https://issuer", "tms", "sub", "groups", clock=clock)
    try:
        async with pair_of_servers(web_tokens=verifier.verify) as pair:
            await pair.services.messaging.create_topic(TopicId("ns", "t"))
            await pair.allow("ann", Action.PUBLISH)
            await pair.allow("group:team", Action.PUBLISH)
            yield Issued(pair, issuer, clock)
    finally:
        await keys.close()


@pytest.fixture
async def issued(anyio_backend: object, tmp_path: Path) -> AsyncIterator[Issued]:
    async with KeyServer(tmp_path).serving() as issuer, issued_by(issuer) as made:
        yield made


async def test_tokens_of_the_issuer_are_let_in(issued: Issued) -> None:
    for name in KEYS:
        assert await issued.publish(token(name)) == (200, "")
    in_group = token("ES256", sub="tom", groups=["team", "other"])
    assert await issued.publish(in_group) == (200, "")
    assert (await issued.publish(token("ES256", sub="tom")))[0] == 404
    assert issued.issuer.asked == 1


async def test_others_are_not(issued: Issued) -> None:
    public = RSA.public_key().public_numbers()
    wrong = [
        token("RS256", aud="other"),
        token("RS256", aud=None),
        token("RS256", iss="https://other"),
        token("RS256", exp=NOW_S - 31),
        token("RS256", exp=None),
        token("RS256", nbf=NOW_S + 31),
        token("RS256", sub="server:1"),
        token("RS256", sub="anonymous"),
        token("RS256", sub=""),
        token("RS256", sub=None),
        token("RS256", EC, "ES256"),
        token("RS256", str(public.n).encode() * 2, "HS256"),
        {"authorization": token("RS256")["authorization"][:-40] + "A" * 40},
        {"authorization": f"Bearer {jwt.encode({'sub': 'root'}, '', algorithm='none')}"},
    ]
    for at, headers in enumerate(wrong):
        assert await issued.publish(headers) == REFUSED, at


async def test_a_token_ends_while_its_head_is_known(issued: Issued) -> None:
    headers = token("ES256")
    assert await issued.publish(headers) == (200, "")
    for clock in (issued.clock, issued.pair.clock):
        clock.advance(600_000 + 31_000)
    assert await issued.publish(headers) == REFUSED


async def test_keys_are_changed_and_may_be_away(issued: Issued) -> None:
    issuer = issued.issuer
    old = token("old", ED, "EdDSA")
    assert await issued.publish(old) == REFUSED, "a key that nobody knows"
    issuer.answer = key_set(jwk("EdDSA", ED, "old"), jwk("ES256", EC, "new"))
    issued.clock.advance(UNKNOWN_EVERY_MS)
    assert await issued.publish(old) == (200, "")
    asked = issuer.asked

    issuer.status = "503 Service Unavailable"
    issued.clock.advance(UNKNOWN_EVERY_MS)
    assert await issued.publish(token("newer", RSA, "RS256")) == REFUSED
    assert issuer.asked == asked + 1, "those who are unknown cost the issuer little"
    assert await issued.publish(token("new", EC, "ES256")) == (200, ""), "known keys hold"

    issuer.status, issuer.answer = "200 OK", key_set(jwk("RS256", RSA, "newer"))
    issued.clock.advance(UNKNOWN_EVERY_MS)
    assert await issued.publish(token("newer", RSA, "RS256")) == (200, "")
    assert await issued.publish(token("new", EC, "ES256", sub="tom")) == REFUSED, "it is gone"


async def test_others_are_answered_while_the_issuer_is_slow(issued: Issued) -> None:
    issued.issuer.may_answer.clear()
    issued.issuer.was_asked.clear()
    issued.clock.advance(UNKNOWN_EVERY_MS)
    http = issued.pair.leader.http
    body = {"messages": ["x"]}
    unknown = [
        asyncio.create_task(
            http.post(PUBLISH, json=body, headers=token("x", ED, "EdDSA", jti=each))
        )
        for each in "abcdef"
    ]
    await asyncio.wait_for(issued.issuer.was_asked.wait(), WAIT_S_MAX)
    assert await issued.publish(token("RS256")) == (200, "")
    assert not any(each.done() for each in unknown)
    issued.issuer.may_answer.set()
    for each in unknown:
        assert refusal(await asyncio.wait_for(each, WAIT_S_MAX)) == REFUSED
