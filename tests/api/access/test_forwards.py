"""What a server passes on of who asked is believed only if a server has sealed just this."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.access.conftest import NS, Guarded
from tests.api.doors import ROOT
from tests.api.rest import refusal
from tms.security.forwards import Sealer
from tms.security.resources import Action
from tms.security.rules import Identity

pytestmark = pytest.mark.anyio

PATH = f"{NS}/topics/t/publish"
BODY = b'{"messages": ["x"]}'
JSON = {"content-type": "application/json"}
REFUSED = (401, "credentials_invalid")


def sealed(guarded: Guarded, **changed: object) -> dict[str, str]:
    """Return the headers of a forward that is right but for what is changed."""
    sealer = Sealer(guarded.keys, "9", guarded.doors.clock)
    said = {
        "identity": Identity(ROOT),
        "method": "POST",
        "path": PATH,
        "query": b"",
        "target": guarded.url,
        "body": BODY,
        **changed,
    }
    target, body = said.pop("target"), said.pop("body")
    value = sealer.seal(*said.values(), target=target, body=body)  # type: ignore[arg-type]
    return {**JSON, "tms-principal": value.decode()}


async def test_a_sealed_request_is_its_principals(guarded: Guarded) -> None:
    answer = await guarded.http.post(PATH, content=BODY, headers=sealed(guarded))
    assert answer.status_code == 200, answer.text
    of_another = sealed(guarded, identity=Identity("ann"))
    answer = await guarded.http.post(PATH, content=BODY, headers=of_another)
    assert refusal(answer) == (404, "topic_not_found")
    of_nobody = sealed(guarded, identity=None)
    answer = await guarded.http.post(PATH, content=BODY, headers=of_nobody)
    assert refusal(answer) == (401, "credentials_required")


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "PUT"},
        {"path": f"{NS}/topics/a/publish"},
        {"query": b"ids=true"},
        {"target": "http://127.0.0.1:1"},
        {"body": b'{"messages": ["y"]}'},
        {"body": 5},
        {"body": len(BODY)},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_what_was_altered_is_refused(guarded: Guarded, changed: dict[str, object]) -> None:
    headers = sealed(guarded, **changed)
    answer = await guarded.http.post(PATH, content=BODY, headers=headers)
    if changed == {"body": len(BODY)}:
        assert answer.status_code == 200, "a body that was streamed is covered by its length"
        return
    assert refusal(answer) == REFUSED
    assert await guarded.served.messages(f"{NS}/topics/t") == []


async def test_a_body_that_comes_in_parts_is_compared_too(guarded: Guarded) -> None:
    async def parts(*given: bytes) -> AsyncIterator[bytes]:
        for part in given:
            yield part

    async def post(*given: bytes) -> httpx.Response:
        headers = sealed(guarded) | {"content-length": str(len(b"".join(given)))}
        return await guarded.http.post(PATH, content=parts(*given), headers=headers)

    assert refusal(await post(BODY[:5], BODY[5:-1] + b" ")) == REFUSED
    assert (await post(BODY[:5], BODY[5:])).status_code == 200


async def test_each_is_taken_once(guarded: Guarded) -> None:
    headers = sealed(guarded)
    assert (await guarded.http.post(PATH, content=BODY, headers=headers)).status_code == 200
    for _ in range(2):
        answer = await guarded.http.post(PATH, content=BODY, headers=headers)
        assert refusal(answer) == REFUSED


async def test_one_that_stands_by_passes_on_no_word_of_a_client(guarded: Guarded) -> None:
    """Not even one that another server has sealed."""
    headers = sealed(guarded) | await guarded.headers("ann")
    answer = await guarded.by_standby.post(PATH, content=BODY, headers=headers)
    assert refusal(answer) == (404, "topic_not_found")


async def test_a_forward_counts_before_other_credentials(guarded: Guarded) -> None:
    headers = {**sealed(guarded), "tms-principal": "v1;forged", **await guarded.headers(ROOT)}
    answer = await guarded.http.post(PATH, content=BODY, headers=headers)
    assert refusal(answer) == REFUSED


async def test_transactions_are_their_principals_through_one_that_stands_by(
    guarded: Guarded,
) -> None:
    for who in ("ann", "bob"):
        await guarded.doors.allow(who, [Action.TRANSACT])
    ann, bob = [await guarded.headers(who) for who in ("ann", "bob")]
    started = await guarded.by_standby.post("/v1/transactions?codec=false", headers=ann)
    path = f"/v1/transactions/{started.json()['transaction_id']}"
    refused = await guarded.by_standby.post(f"{path}/abort", headers=bob)
    assert refusal(refused) == (403, "transaction_of_another")
    await guarded.doors.allow("bob", [Action.TRANSACT_ANY])
    assert (await guarded.by_standby.post(f"{path}/abort", headers=bob)).status_code == 200


async def test_a_server_itself_may_use_the_topics_of_the_service_alone(guarded: Guarded) -> None:
    own = "/v1/namespaces/system/topics/_schemas"
    for path, status in ((own, 200), (f"{NS}/topics/new", 404)):
        headers = sealed(guarded, identity=Identity("server:9"), method="PUT", path=path, body=b"")
        headers |= {"tms-part": "registry"}
        assert (await guarded.http.put(path, headers=headers)).status_code == status
