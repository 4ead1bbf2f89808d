"""Each operation of the table, by each kind of caller, each way in, asked anew and again."""

import httpx
import pytest

from api.app import OPERATIONS
from api.http.operation import DecidedBy, Operation
from tests.api.access.conftest import Guarded, guarding
from tests.api.doors import ROOT, bearer
from tests.api.rest import refusal
from tms.security.resources import ACTIONS_OF, Action, Kind
from tms.security.tokens import new_token

pytestmark = pytest.mark.anyio

OPEN = {"/", "/ping", "/health", "/ready"}
WAYS = ("itself", "forwarded")
OF_EACH_SERVER = {"/health", "/ready", "/metrics", "/v1/cluster"}


def path_of(operation: Operation) -> str:
    return operation.path.format(
        namespace="ns", topic="t", subscription="s", transaction_id=1, id="a" * 12
    )


async def ask(
    http: httpx.AsyncClient, operation: Operation, headers: dict[str, str]
) -> list[httpx.Response]:
    """Ask three times, so that the head is unknown, seen, and known."""
    return [
        await http.request(operation.method, path_of(operation), headers=headers) for _ in range(3)
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_who_is_not_known_is_refused_and_who_is_needs_a_rule(
    guarded: Guarded, operation: Operation, way: str
) -> None:
    http = guarded.way(way)
    stranger, _ = new_token("ann")
    revoked = await guarded.doors.token("revoked")
    await guarded.doors.grants.remove_token(await guarded.doors.id_of("revoked"))
    unknown = {
        "nothing": {},
        "a stranger's": bearer(stranger),
        "revoked": bearer(revoked),
        "no token": bearer("tms_x"),
        "a forged forward": {"tms-principal": f"who={ROOT}"},
        "another scheme": {"authorization": "Digest x"},
    }
    for said, headers in unknown.items():
        for answer in await ask(http, operation, headers):
            if operation.path in OPEN:
                assert answer.status_code == 200, (said, answer.text)
            else:
                status, code = refusal(answer)
                assert (status, code.partition("_")[0]) == (401, "credentials"), (said, answer.text)
                assert answer.headers["www-authenticate"].startswith("Bearer")
    if operation.action is None:
        return
    known = await guarded.headers("ann")
    if operation.decided_by is not DecidedBy.ANSWER:
        for answer in await ask(http, operation, known):
            assert refusal(answer) in ((403, "not_permitted"), (404, "topic_not_found"))
    await guarded.doors.allow("ann", [operation.action])
    answers = await ask(http, operation, known)
    assert [each for each in answers if each.status_code in (401, 403)] == []
    first = answers[0]
    assert first.status_code != 404 or refusal(first)[1] != "topic_not_found"


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_no_operation_is_told_to_nobody(guarded: Guarded, way: str) -> None:
    http = guarded.way(way)
    for method, path in (("GET", "/v1/nothing"), ("PATCH", f"{'/v1/namespaces/ns/topics'}/t")):
        assert refusal(await http.request(method, path)) == (401, "credentials_required")
        told = await http.request(method, path, headers=await guarded.headers("ann"))
        assert told.status_code in (404, 405)


async def test_each_rule_is_for_its_action_alone(guarded: Guarded) -> None:
    """With all actions but the one that an operation needs, it is refused."""
    headers = await guarded.headers("ann")
    rules = {
        action: await guarded.doors.allow("ann", [action])
        for kind in (Kind.TOPIC, Kind.SERVER)
        for action in ACTIONS_OF[kind]
    }
    for operation in OPERATIONS:
        needed = operation.action
        # Who may do anything to a topic may describe it.
        if needed in (None, Action.DESCRIBE) or operation.decided_by is DecidedBy.ANSWER:
            continue
        assert needed is not None
        await guarded.doors.grants.remove_rule(rules[needed].id)
        answer = await guarded.http.request(operation.method, path_of(operation), headers=headers)
        assert refusal(answer) == (403, "not_permitted"), operation.name
        await guarded.doors.grants.add_rule(rules[needed])


async def test_who_says_nothing_is_anonymous_if_that_is_allowed() -> None:
    async with guarding(is_required=False) as guarded:
        topic = "/v1/namespaces/ns/topics/t"
        assert refusal(await guarded.http.post(f"{topic}/poll", json={})) == (
            404,
            "topic_not_found",
        )
        await guarded.doors.allow("*", [Action.CONSUME])
        assert (await guarded.http.post(f"{topic}/poll", json={})).status_code == 404
        await guarded.doors.allow("anonymous", [Action.CONSUME])
        for http in (guarded.http, guarded.by_standby):
            assert (await http.post(f"{topic}/poll", json={})).status_code == 200
            bad = await http.post(f"{topic}/poll", json={}, headers=bearer("tms_bad"))
            assert refusal(bad) == (401, "credentials_invalid")
