"""Each operation is done only for those who may do it, however the request arrives."""

import pytest

from api.app import OPERATIONS
from api.http.operation import Operation
from tests.api.rest import NOW_MS, TOPIC, refusal
from tests.api.security.asking import TIMES, statuses
from tests.api.security.secured import OPEN, Pair, pair_of_servers
from tests.api.security.targets import FOR_SUPERUSERS, targets
from tests.api.security.things import make_things, things
from tms.core.limits import JSON_INTEGER_MAX
from tms.security.resources import Action
from tms.security.tokens import new_token

pytestmark = pytest.mark.anyio

UNKNOWN = (("GET", "/nowhere"), ("POST", "/v1/nowhere"), ("PATCH", "/v1/namespaces"))


@pytest.mark.parametrize("way", ["directly", "forwarded"])
@pytest.mark.parametrize("credential", ["none", "bad", "ended", "revoked", "not a token", "empty"])
async def test_strangers_learn_and_change_nothing(pair: Pair, way: str, credential: str) -> None:
    transaction = await make_things(pair)
    before = await things(pair)
    headers = await bad_credentials(pair, credential)

    for operation, path, body in targets(transaction):
        expected = [200] if operation.path in OPEN else [401]
        found = await statuses(pair.servers[way], operation.method, path, body, headers)
        assert found == expected * TIMES, operation.name
    for method, path in UNKNOWN:
        assert await statuses(pair.servers[way], method, path, b"", headers) == [401] * TIMES, path

    assert await things(pair) == before


async def bad_credentials(pair: Pair, kind: str) -> dict[str, str]:
    if kind == "none":
        return {}
    if kind == "ended":
        headers = await pair.token("ann", expires_ms=pair.clock.now_ms() + 1000)
        for server in pair.servers.values():
            assert (await server.http.get("/v1/namespaces", headers=headers)).status_code == 200
        pair.clock.advance(1000)
        return headers
    if kind == "revoked":
        headers = await pair.token("ann")
        for server in pair.servers.values():
            assert (await server.http.get("/v1/namespaces", headers=headers)).status_code == 200
        await pair.revoke(headers)
        return headers
    told = {"bad": f"Bearer {new_token('ann')[0]}", "empty": "", "not a token": "Bearer x.y.z"}
    return {"authorization": told[kind]}


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_without_rules_nothing_is_done_nor_told(pair: Pair, way: str) -> None:
    transaction = await make_things(pair)
    before = await things(pair)
    headers = await pair.token("ann")

    for operation, path, body in targets(transaction):
        found = await statuses(pair.servers[way], operation.method, path, body, headers)
        if operation.path in OPEN or operation.decided_by.name == "ANSWER":
            assert set(found) <= {200, 404}, operation.name
        else:
            assert set(found) <= {403, 404}, operation.name
    for path in ("/v1/namespaces", "/v1/namespaces/ns/topics"):
        assert (await pair.servers[way].http.get(path, headers=headers)).json() == []

    assert await things(pair) == before


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_the_rule_for_its_action_is_all_an_operation_needs(pair: Pair, way: str) -> None:
    headers = await pair.token("ann")
    for name in [operation.name for operation in OPERATIONS]:
        transaction = await make_things(pair)
        operation, path, body = next(each for each in targets(transaction) if each[0].name == name)
        rule = operation.action and await pair.allow("ann", operation.action)
        found = await statuses(pair.servers[way], operation.method, path, body, headers)
        if name in FOR_SUPERUSERS:
            assert set(found) == {403}, name
        else:
            assert not {401, 403, 500, 503} & set(found), (name, found)
        if rule:
            await pair.disallow(rule)
            if operation.decided_by.name != "ANSWER":
                found = await statuses(pair.servers[way], operation.method, path, body, headers)
                assert set(found) <= {403, 404}, (name, found)


def allowing(operation: Operation) -> tuple[Action, ...]:
    """Return the actions any one of which allows an operation."""
    return tuple(each for each in (operation.action, operation.or_action) if each is not None)


@pytest.mark.parametrize("way", ["directly", "forwarded"])
async def test_rules_for_other_actions_let_nobody_in(pair: Pair, way: str) -> None:
    headers = await pair.token("ann")
    needed = sorted({allowing(each) for each in OPERATIONS if each.action is not None})
    rules = {
        action: await pair.allow("ann", action)
        for action in {each for actions in needed for each in actions}
    }
    transaction = await make_things(pair)
    before = await things(pair)
    for actions in needed:
        for action in actions:
            await pair.disallow(rules[action])
        for operation, path, body in targets(transaction):
            is_told = operation.decided_by.name == "ANSWER" or "describe" in actions
            if allowing(operation) != actions or is_told:
                continue
            found = await statuses(pair.servers[way], operation.method, path, body, headers)
            assert set(found) == {403}, operation.name
        for action in actions:
            rules[action] = await pair.allow("ann", action)

    assert await things(pair) == before


async def test_who_is_anonymous_has_the_rules_for_that_alone(optional: Pair) -> None:
    transaction = await make_things(optional)
    before = await things(optional)
    actions = {each.action for each in OPERATIONS if each.action is not None}
    for who in ("*", "ann", "group:anonymous"):
        for action in actions:
            await optional.allow(who, action)

    for way, server in optional.servers.items():
        for operation, path, body in targets(transaction):
            found = await statuses(server, operation.method, path, body, {})
            if operation.path in OPEN or operation.decided_by.name == "ANSWER":
                assert set(found) <= {200, 404}, operation.name
            else:
                assert set(found) <= {403, 404}, (way, operation.name)
        bad = {"authorization": "Bearer wrong"}
        assert (await server.http.get("/v1/namespaces", headers=bad)).status_code == 401
    assert await things(optional) == before

    await optional.allow("anonymous", *(a for a in actions if a in ("publish", "consume")))
    for server in optional.servers.values():
        sent = await server.http.post(f"{TOPIC}/publish", json={"messages": ["x"]})
        assert sent.status_code == 200
        assert (await server.http.get(TOPIC)).status_code == 200, "who may publish may describe"


@pytest.mark.parametrize("are_open", ["open", "closed"])
async def test_the_documentation_is_open_if_it_is_set_so(
    anyio_backend: object, are_open: str
) -> None:
    async with pair_of_servers(are_docs_open=are_open == "open") as pair:
        for server in pair.servers.values():
            for path in ("/docs", "/openapi.json"):
                expected = [200 if are_open == "open" else 401] * TIMES
                assert await statuses(server, "GET", path, b"", {}) == expected


@pytest.mark.parametrize("expires_ms", [NOW_MS, JSON_INTEGER_MAX + 1, 10**30])
async def test_a_token_ends_at_a_time_that_is_to_come_and_that_json_keeps(
    pair: Pair, expires_ms: int
) -> None:
    asked = {"principal": "ann", "expires_ms": expires_ms}

    answer = await pair.leader.http.post("/v1/auth/tokens", json=asked, headers=pair.root)

    assert refusal(answer) == (400, "invalid_token")
