"""CDAP's client authenticates by `X-CDAP-Runtime-Token`, which is taken for a bearer token.

Authorization takes precedence over it, and `CDAP-UserId` names nobody.
"""

import asyncio
import json

import pytest

from tests.api.rest import TOPIC
from tests.api.security.asking import TIMES, quick, statuses, waiting, waiting_poll
from tests.api.security.secured import OPEN, Pair
from tests.api.security.targets import targets
from tests.api.security.things import make_things
from tests.waiting import WAIT_S_MAX, until
from tms.core.values.topic import TopicId
from tms.security.resources import Action
from tms.security.tokens import new_token

__all__ = ["quick"]

pytestmark = pytest.mark.anyio

WAYS = ("directly", "forwarded")
FIELD = "X-CDAP-Runtime-Token"
TYPES = ("", "CDAP-Internal ", "CDAP-External ", "CDAP-External-Encrypted ", "Bearer ", "bearer  ")
T = TopicId("ns", "t")


def token_of(headers: dict[str, str]) -> str:
    return headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("way", WAYS)
async def test_each_operation_takes_it_as_authorization(pair: Pair, way: str) -> None:
    server, ann = pair.servers[way], await pair.token("ann")
    await pair.allow("ann", Action.CONSUME, Action.PUBLISH, Action.DESCRIBE)
    transaction = await make_things(pair)
    told = {FIELD: f"CDAP-External {token_of(ann)}", "CDAP-UserId": "root"}
    wrong = {FIELD: f"CDAP-External {new_token('ann')[0]}", "CDAP-UserId": "root"}
    nobody = {"CDAP-UserId": "root", "CDAP-UserIP": "127.0.0.1"}
    for operation, path, body in targets(transaction):
        if operation.name.startswith("delete") or operation.path in OPEN:
            continue

        async def asked(headers: dict[str, str]) -> list[int]:
            return await statuses(server, operation.method, path, body, headers)  # noqa: B023

        assert await asked(told) == await asked(ann), operation.name
        assert await asked(wrong) == await asked(nobody) == [401] * TIMES, operation.name


@pytest.mark.parametrize("way", WAYS)
async def test_authorization_counts_before_it(pair: Pair, way: str) -> None:
    server, ann, tom = pair.servers[way], await pair.token("ann"), await pair.token("tom")
    bad = {"authorization": "Bearer wrong"}
    for one, other, expected in (
        (ann, tom, "ann"),
        (tom, ann, "tom"),
        (ann, bad, "ann"),
        (bad, ann, None),
    ):
        headers = {**one, FIELD: token_of(other)}
        for _ in range(TIMES):
            answer = await server.http.get("/v1/auth/whoami", headers=headers)
            assert answer.status_code == (200 if expected else 401)
            assert not expected or answer.json()["principal"] == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", TYPES)
async def test_its_type_means_nothing(pair: Pair, way: str, kind: str) -> None:
    server, ann = pair.servers[way], await pair.token("ann")
    headers = {FIELD: f"{kind}{token_of(ann)}"}
    for _ in range(TIMES):
        told = (await server.http.get("/v1/auth/whoami", headers=headers)).json()
        mechanism = "token" if way == "directly" else "forward"
        assert (told["principal"], told["mechanism"]) == ("ann", mechanism)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value",
    ["", "CDAP-Internal", "a b c", "Basic YW5uOngK", "é"],
)
async def test_a_bad_one_is_401_and_never_anonymous(optional: Pair, way: str, value: str) -> None:
    server = optional.servers[way]
    await optional.allow("anonymous", Action.DESCRIBE)
    for _ in range(TIMES):
        assert (await server.http.get("/v1/auth/whoami")).status_code == 200
        headers = {FIELD: value.encode("latin-1")}
        answer = await server.http.get("/v1/auth/whoami", headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401


@pytest.mark.parametrize("way", WAYS)
async def test_twice_is_refused(pair: Pair, way: str) -> None:
    ann = await pair.token("ann")
    named = [(FIELD, token_of(ann)), (FIELD.lower(), token_of(ann))]
    answer = await pair.servers[way].http.get("/v1/auth/whoami", headers=named)
    assert answer.status_code == 400


@pytest.mark.parametrize("way", WAYS)
async def test_it_holds_no_longer_than_as_authorization(pair: Pair, way: str, quick: None) -> None:
    server, ann = pair.servers[way], await pair.token("ann")
    await pair.services.messaging.create_topic(T)
    await pair.allow("ann", Action.CONSUME)
    told = {FIELD: f"CDAP-Internal {token_of(ann)}"}
    polling = await waiting_poll(pair, server, told)
    await pair.revoke(ann)
    assert (await asyncio.wait_for(polling, WAIT_S_MAX)).status_code == 401
    await until(lambda: waiting(pair) == 0)
    for _ in range(TIMES):
        assert (await server.http.get(TOPIC, headers=told)).status_code == 401


async def test_what_it_says_is_reported_nowhere(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    secret = new_token("canary")[0]
    for server in pair.servers.values():
        for _ in range(TIMES):
            answer = await server.http.get(TOPIC, headers={FIELD: f"CDAP-External {secret}"})
            assert answer.status_code == 401
            assert secret[-20:] not in answer.text
    lines = b"".join(pair.leader.audited.lines + pair.standby.audited.lines)
    assert secret[-20:].encode() not in lines
    assert secret[-20:] not in caplog.text
    told = [json.loads(line) for line in pair.leader.audited.lines]
    assert told[0]["tried"] == secret.split("_")[1], "as of Authorization, its id"
