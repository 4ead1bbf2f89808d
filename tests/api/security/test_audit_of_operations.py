"""The audit records each refusal and each use of each operation, with the right decision."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from api.http.door.guarded import DecidedBy
from api.http.operation import Operation
from tests.api.rest import TOPIC, TOPICS
from tests.api.security.secured import OPEN, Pair, Server, pair_of_servers
from tests.api.security.targets import FOR_SUPERUSERS, targets
from tests.api.security.things import make_things
from tms.core.limits import PrincipalLimits
from tms.core.values.topic import TopicId
from tms.security.resources import ACTIONS_OF, Action, Kind

pytestmark = pytest.mark.anyio

T = TopicId("ns", "t")
WAYS = ("directly", "forwarded")
JSON_TYPE = {"content-type": "application/json"}
EVERY_RULE = [*ACTIONS_OF[Kind.TOPIC], *(set(ACTIONS_OF[Kind.SERVER]) - {Action.TRANSACT_ANY})]
ANSWERED_HERE = (
    *("/docs", "/metrics", "/openapi.json"),
    *("/v1/cluster", "/v1/cluster/wishes", "/v1/clock", "/v1/clock/accept"),
    *("/v1/backups", "/v1/backups/b", "/v1/backups/b/verify"),
)


def told_of(pair: Pair, principal: str = "ann") -> list[dict[str, Any]]:
    """Return the records of both servers' audits about a principal, and clear them."""
    found = []
    for server in pair.servers.values():
        found += [json.loads(line) for line in server.audited.lines]
        server.audited.lines.clear()
    return [each for each in found if each["principal"] == principal]


def resource_of(operation: Operation, transaction: int) -> str:
    names = {"namespace": "ns", "topic": "t", "subscription": "s", "id": "none"}
    names["transaction_id"] = str(transaction)
    given = {name: value for name, value in names.items() if f"{{{name}}}" in operation.path}
    return str(operation.resource_of(given))


async def ask(
    server: Server, operation: Operation, path: str, body: bytes, headers: Mapping[str, str]
) -> int:
    sent = {**headers, **JSON_TYPE} if body else headers
    answer = await server.http.request(operation.method, path, content=body, headers=sent)
    return answer.status_code


@pytest.mark.parametrize("way", WAYS)
async def test_each_refusal_is_reported_and_nothing_as_allowed(pair: Pair, way: str) -> None:
    transaction = await make_things(pair)
    headers = await pair.token("ann")
    for operation, path, body in targets(transaction):
        if operation.path in OPEN:
            continue
        pair.clock.advance(60_000)  # each is the first use of its minute
        status = await ask(pair.servers[way], operation, path, body, headers)
        told = told_of(pair)
        if status < 400:
            assert operation.decided_by is DecidedBy.ANSWER, operation.name
            assert {each["effect"] for each in told} == {"allow"}, operation.name
            continue
        [line] = told
        found = (line["effect"], line["action"], line["operation"], line["status"])
        assert found == ("deny", operation.action, operation.name, status), told
        assert not path.endswith("/subscriptions/s") or line["about"] == "subscription s"
        if operation.decided_by is DecidedBy.PATH:
            assert line["resource"] == resource_of(operation, transaction)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", ["ann", "root"])
async def test_each_use_is_reported_and_nothing_as_denied(pair: Pair, way: str, who: str) -> None:
    headers = pair.root if who == "root" else await pair.token("ann")
    for action in EVERY_RULE:
        await pair.allow("ann", action)
    names = [each[0].name for each in targets(0)]
    for name in names:
        transaction = await make_things(pair)
        operation, path, body = next(each for each in targets(transaction) if each[0].name == name)
        if operation.path in OPEN:
            continue
        pair.clock.advance(60_000)  # each is the first use of its minute
        told_of(pair, who)
        status = await ask(pair.servers[way], operation, path, body, headers)
        told = told_of(pair, who)
        if name in FOR_SUPERUSERS and who != "root":
            assert [each["effect"] for each in told] == ["deny"], name
            continue
        assert {each["effect"] for each in told} == {"allow"}, (name, told)
        assert {each["status"] for each in told} == {status}, (name, told)
        assert {each["operation"] for each in told} == {name}
        is_forwarded = way == "forwarded" and path not in ANSWERED_HERE
        assert {each["via"] for each in told} == {"7" if is_forwarded else None}, name
        actions = [each["action"] for each in told if each["action"] != "transact-any"]
        assert operation.action in actions, (name, told)
        of_it = [each["resource"] for each in told if each["action"] == operation.action]
        if operation.decided_by is DecidedBy.PATH:
            assert of_it == [resource_of(operation, transaction)]
        elif operation.decided_by is DecidedBy.BODY:
            assert of_it == ["ns:t"]


def _body_of(how: str) -> dict[str, list[str]]:
    return {"changes": []} if how == "can-commit" else {}


# Requests that are refused after the access check.


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_of_another_is_reported_as_denied(pair: Pair, way: str) -> None:
    server = pair.servers[way]
    await pair.services.messaging.create_topic(T)
    ann, tom = [await pair.token(name) for name in ("ann", "tom")]
    for who in ("ann", "tom"):
        for action in EVERY_RULE:
            await pair.allow(who, action)
    path = "/v1/transactions"
    started = await server.http.post(path, json={"owner": "o", "sequence": 1}, headers=ann)
    transaction = started.json()["transaction_id"]
    written = {"transactionWritePointer": transaction, "messages": ["x"]}
    published = await server.http.post(f"{TOPIC}/publish", json=written, headers=ann)
    once = {"topics": {"t": ["x"]}, "owner": "o", "sequence": 2}
    of_another = f"transaction {transaction}"
    asked: list[tuple[str, str, Any, str, str, str]] = [
        ("POST", f"{TOPIC}/publish", written, "publish", "ns:t", of_another),
        ("POST", f"{TOPIC}/store", written, "publish", "ns:t", of_another),
        ("POST", f"{TOPIC}/rollback", published.json(), "publish", "ns:t", of_another),
        ("POST", path, {"owner": "o", "sequence": 2}, "transact", "the server", "owner o"),
        ("POST", "/v1/namespaces/ns/publish", once, "publish", "namespace ns", "owner o"),
        ("GET", f"{path}/{transaction}", None, "transact", "the server", of_another),
        *(
            (
                "POST",
                f"{path}/{transaction}/{how}",
                _body_of(how),
                "transact",
                "the server",
                of_another,
            )
            for how in ("commit", "checkpoint", "abort", "invalidate", "can-commit")
        ),
    ]
    for method, at, given, named, resource, about in asked:
        told_of(pair, "tom")
        answer = await server.http.request(method, at, json=given, headers=tom)
        assert answer.status_code == 403, (at, answer.text)
        [line] = told_of(pair, "tom")
        assert (line["effect"], line["status"]) == ("deny", 403), at
        assert (line["action"], line["resource"]) == (named, resource), at
        assert (line["reason"], line["about"]) == ("transaction_of_another", about), at


@pytest.mark.parametrize("way", WAYS)
async def test_topics_of_the_service_are_reported_as_denied(pair: Pair, way: str) -> None:
    server, headers = pair.servers[way], await pair.token("ann")
    for action in ACTIONS_OF[Kind.TOPIC]:
        await pair.allow("ann", action, namespace="system", name="_*")
    topic, send = "/v1/namespaces/system/topics/_schemas", {"messages": ["x"]}
    asked: list[tuple[str, str, Any, str]] = [
        ("PUT", topic, {}, "manage"),
        ("PUT", f"{topic}/properties", {}, "manage"),
        ("POST", f"{topic}/trim", {"before": 1}, "manage"),
        ("DELETE", topic, None, "manage"),
        ("POST", f"{topic}/publish", send, "publish"),
        ("POST", f"{topic}/store", {**send, "transactionWritePointer": "5"}, "publish"),
    ]
    for method, at, given, named in asked:
        answer = await server.http.request(method, at, json=given, headers=headers)
        assert answer.status_code == 403, (at, answer.text)
        [line] = told_of(pair)
        assert (line["effect"], line["action"], line["status"]) == ("deny", named, 403)
        assert (line["resource"], line["reason"]) == ("system:_schemas", "topic_of_the_service")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", ["tom", "root"])
async def test_whose_transactions_somebody_else_ends_is_told(
    pair: Pair, way: str, who: str
) -> None:
    server, ann = pair.servers[way], await pair.token("ann")
    headers = pair.root if who == "root" else await pair.token("tom")
    for action in (Action.TRANSACT, Action.TRANSACT_ANY):
        await pair.allow("tom", action)
    await pair.allow("ann", Action.TRANSACT)
    path = "/v1/transactions"
    for method, how in (("GET", ""), ("POST", "/checkpoint"), ("POST", "/abort")):
        for of, is_others in ((ann, True), (headers, False)):
            started = await server.http.post(path, json={}, headers=of)
            transaction = started.json()["transaction_id"]
            told_of(pair, who)
            asked: dict[str, str] | None = {} if method == "POST" else None
            at = f"{path}/{transaction}{how}"
            answer = await server.http.request(method, at, json=asked, headers=headers)
            assert answer.status_code == 200, answer.text
            told = [each for each in told_of(pair, who) if each["action"] == "transact-any"]
            assert len(told) == is_others
            for each in told:
                assert each["resource"] == f"transaction {transaction} of ann"
                assert each["effect"] == "allow"
                assert each["status"] == 200


@pytest.mark.parametrize("way", WAYS)
async def test_who_grants_is_reported_with_what(pair: Pair, way: str) -> None:
    server, root = pair.servers[way], pair.root

    async def told(method: str, path: str, body: Any = None) -> tuple[Any, dict[str, Any]]:
        told_of(pair, "root")
        answer = await server.http.request(method, path, json=body, headers=root)
        assert answer.status_code == 200, answer.text
        [line] = told_of(pair, "root")
        assert (line["action"], line["resource"]) == ("grant", "the server")
        return (answer.json() if answer.content else None), line

    rule = {"who": "shop", "actions": ["publish"], "namespace": "default", "name": "orders*"}
    added, line = await told("POST", "/v1/auth/rules", rule)
    said = f"rule {added['id']}: allow shop publish on default:orders*"
    assert line["about"] == said
    assert (await told("DELETE", f"/v1/auth/rules/{added['id']}"))[1]["about"] == said
    token, line = await told("POST", "/v1/auth/tokens", {"principal": "shop", "groups": ["g", "h"]})
    assert line["about"] == f"token {token['id']} of shop, in g, h"
    assert token["token"] not in json.dumps(line)
    assert (await told("DELETE", f"/v1/auth/tokens/{token['id']}"))[1]["about"] == line["about"]
    asked = "/v1/auth/explain?principal=shop&action=publish&topic=t"
    assert "shop" in (await told("GET", asked))[1]["about"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_drops_the_open_messages_of_a_group_is_reported_each_time(
    pair: Pair, way: str
) -> None:
    server, ann, group = pair.servers[way], await pair.token("ann"), f"{TOPIC}/subscriptions/g"
    await pair.services.messaging.create_topic(T)
    await pair.allow("ann", Action.SUBSCRIBE)
    asked: list[tuple[str, str, Any, list[str]]] = [
        ("PUT", group, {"kind": "shared"}, ["createSubscription"]),
        ("GET", group, None, []),
        ("POST", f"{group}/seek", {"after": "end"}, ["seekGroup"]),
        ("POST", f"{group}/seek", {"after": "start"}, ["seekGroup"]),
        ("DELETE", group, None, ["deleteSubscription"]),
        ("PUT", group, {"kind": "shared"}, []),
    ]
    for method, at, given, operations in asked:
        told_of(pair)
        answer = await server.http.request(method, at, json=given, headers=ann)
        assert answer.status_code == 200, answer.text
        told = told_of(pair)
        assert [each["operation"] for each in told] == operations
        for each in told:
            found = (each["action"], each["effect"], each["resource"], each["about"])
            assert found == ("subscribe", "allow", "ns:t", "subscription g")


# Actions that a principal may do with one right, and could do with another.


@pytest.mark.parametrize("way", WAYS)
async def test_who_grants_takes_no_superuser_his_token(pair: Pair, way: str) -> None:
    server, ann = pair.servers[way], await pair.token("ann")
    await pair.allow("ann", Action.GRANT)
    [token_id] = [e.id for e in pair.leader.grants.tokens.values() if e.principal == "root"]
    path = f"/v1/auth/tokens/{token_id}"
    told_of(pair)

    refused = await server.http.delete(path, headers=ann)

    assert refused.status_code == 403
    [line] = told_of(pair)
    assert (line["action"], line["effect"]) == ("grant", "deny")
    assert line["about"] == f"token {token_id} of root"
    assert (await server.http.get("/v1/auth/tokens", headers=pair.root)).status_code == 200
    own = await pair.token("tom")
    of_tom = own["authorization"].split("_")[1]
    assert (await server.http.delete(f"/v1/auth/tokens/{of_tom}", headers=ann)).status_code == 200
    assert (await server.http.delete(path, headers=pair.root)).status_code == 200


async def test_a_superusers_token_of_which_a_server_has_not_heard_stays_too(pair: Pair) -> None:
    ann = await pair.token("ann")
    await pair.allow("ann", Action.GRANT)
    [token_id] = [e.id for e in pair.leader.grants.tokens.values() if e.principal == "root"]
    tokens = pair.leader.grants._tokens
    assert tokens is not None
    kept = tokens.values.pop(token_id)  # as if the other server had just created it
    tokens._stored.pop(token_id)
    refused = await pair.leader.http.delete(f"/v1/auth/tokens/{token_id}", headers=ann)
    assert refused.status_code == 403
    assert pair.leader.grants.token(token_id) == kept


@pytest.mark.parametrize("way", WAYS)
async def test_debug_rows_are_for_those_who_may_consume_the_topic_too(pair: Pair, way: str) -> None:
    server, headers = pair.servers[way], await pair.token("ann")
    topics = {name: TopicId("ns", name) for name in ("a", "b", "t")}
    for topic in topics.values():
        await pair.services.messaging.create_topic(topic, {})
        await pair.services.messaging.publish(topic, [topic.name.encode() * 3])
        await pair.services.subscriptions.create_subscription(topic, "s")
    await pair.allow("ann", Action.OPERATE)
    await pair.allow("ann", Action.CONSUME, name="b")
    await pair.allow("ann", Action.MANAGE, name="t")

    async def rows(query: str) -> tuple[int, set[str]]:
        answer = await server.http.get(f"/v1/debug/rows?{query}", headers=headers)
        secrets = [base64.b64encode(name.encode() * 3).decode() for name in "at"]
        assert not any(each in answer.text for each in secrets), query
        found = answer.json().get("rows", [])
        return answer.status_code, {each["topic"] for each in found if "topic" in each}

    assert await rows("table=message") == (200, {"ns:b"})
    for table in ("subscription", "metadata"):
        assert await rows(f"table={table}") == (200, {"ns:a", "ns:b", "ns:t"})
    assert await rows("namespace=ns&topic=b") == (200, {"ns:b"})
    assert await rows("namespace=ns&topic=b&after=00") == (200, {"ns:b"})
    assert await rows("namespace=ns&topic=a") == (404, set())
    assert await rows("namespace=ns&topic=t") == (403, set())
    at = "/v1/debug/namespaces/ns/topics"
    for name, status in (("a", 404), ("t", 403), ("b", 200)):
        path = f"{at}/{name}/explain?id={'0' * 40}"
        assert (await server.http.get(path, headers=headers)).status_code == status, name
    told = [each for each in told_of(pair) if each["action"] == "consume"]
    assert {(each["resource"], each["effect"]) for each in told} == {
        ("ns:b", "allow"),
        ("ns:a", "deny"),
        ("ns:t", "deny"),
    }
    everything = await server.http.get("/v1/debug/rows", headers=pair.root)
    assert {each["topic"] for each in everything.json()["rows"]} == {"ns:a", "ns:b", "ns:t"}


async def test_a_publish_to_several_topics_over_a_limit_charges_nothing(
    anyio_backend: object,
) -> None:
    limits = PrincipalLimits(publish_messages_per_s=4, publish_bytes_per_s=100)
    async with pair_of_servers(limits=limits) as pair:
        http, ann = pair.leader.http, await pair.token("ann")
        await pair.allow("ann", Action.PUBLISH)
        for name in ("t", "u"):
            await pair.services.messaging.create_topic(TopicId("ns", name))
        path = f"{TOPICS.removesuffix('/topics')}/publish"
        body = {"topics": {"t": ["x"], "u": ["y" * 60, "z" * 60]}}
        use: Any = pair.leader.access._quotas.of("ann")  # type: ignore[union-attr]
        use.take_publish(1, 10)
        before = [use._publish_messages._unpaid, use._publish_bytes._unpaid]
        for _ in range(3):
            assert (await http.post(path, json=body, headers=ann)).status_code == 429
        assert [use._publish_messages._unpaid, use._publish_bytes._unpaid] == before
