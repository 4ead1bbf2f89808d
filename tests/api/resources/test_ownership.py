"""Over REST, only the principal that began a transaction may end it or write in it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import OPERATIONS, create_app
from api.http.application import Application
from api.http.exchange import Exchange
from api.http.metrics import RestMetrics
from api.http.operation import Handler
from tests.api.rest import JSON_TYPE, TOPIC, Live, live, refusal, serving
from tests.api.transactions import TRANSACTIONS
from tms.core.limits import Limits
from tms.core.values.caller import Caller

pytestmark = pytest.mark.anyio

LIMITS = Limits(principal_transactions_max=2, transaction_owners_max=20)
OF_ANOTHER = (403, "transaction_of_another")


def _asked_by(handler: Handler) -> Handler:
    """Return a handler that takes the caller's name from the header X-Test-Caller."""

    async def handle(exchange: Exchange) -> None:
        name = exchange.headers.get(b"x-test-caller", b"").decode()
        caller = Caller(name or None, may_end_any=name == "overseer")
        exchange.fields = exchange.fields._replace(caller=caller)
        await handler(exchange)

    return handle


class Callers:
    """Asks one server as several principals."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(
        self, caller: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        headers = {"x-test-caller": caller}
        if body is None:
            return await self.http.request(method, path, headers=headers)
        return await self.http.request(method, path, headers=headers, json=body)

    async def started(self, caller: str, **asked: Any) -> int:
        answer = await self.ask(caller, "POST", TRANSACTIONS, asked)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["transaction_id"])


@pytest.fixture
async def callers(anyio_backend: object) -> AsyncIterator[Callers]:
    async with live(LIMITS, own=True) as served:
        await served.create()
        app = _application(served)
        async with (
            serving(app, LIMITS) as (url, _),
            httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http,
        ):
            yield Callers(http)


def _application(served: Live) -> Application:
    context = create_app(
        served.services, LIMITS, registry=CollectorRegistry(), clock=served.clock
    ).context
    operations = [replace(each, handler=_asked_by(each.handler)) for each in OPERATIONS]
    return Application(context, RestMetrics(), operations)


def _requests(tx: int) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Return every request on a transaction; the principal that owns it may make each.

    They are in an order in which all succeed.
    """
    of_it = f"{TRANSACTIONS}/{tx}"
    messages = {"messages": ["x"], "transactionWritePointer": str(tx)}
    rolled = {
        "transactionWritePointer": str(tx),
        "rollbackRange": {
            "startTimestamp": 1,
            "startSequenceId": 0,
            "endTimestamp": 2,
            "endSequenceId": 0,
        },
    }
    return [
        ("GET", of_it, None),
        ("GET", f"{of_it}?codec=false", None),
        ("POST", f"{of_it}/can-commit", {"changes": ["x"]}),
        ("POST", f"{of_it}/can-commit", {"changes": []}),
        ("POST", f"{of_it}/checkpoint", None),
        ("POST", f"{TOPIC}/store", messages),
        ("POST", f"{TOPIC}/publish", {**messages, "messages": []}),
        ("POST", f"{TOPIC}/publish", messages),
        ("POST", f"{TOPIC}/rollback", rolled),
        ("POST", f"{of_it}/invalidate", None),
        ("POST", f"{of_it}/abort", None),
    ]


@pytest.mark.parametrize("caller", ["ann", "overseer", ""])
async def test_who_may_act_on_a_transaction(callers: Callers, caller: str) -> None:
    tx = await callers.started("ann")

    for method, path, body in [*_requests(tx), ("POST", f"{TRANSACTIONS}/{tx}/commit", None)]:
        refused = await callers.ask("bob", method, path, body)
        assert refusal(refused) == OF_ANOTHER, path
        assert refused.json()["error"]["detail"] == {"transaction_id": str(tx)}
    for method, path, body in _requests(tx):
        answer = await callers.ask(caller, method, path, body)
        assert answer.status_code == 200, (path, answer.text)


async def test_a_commit_is_its_principals_and_its_outcome_everybodys(callers: Callers) -> None:
    tx = await callers.started("ann")
    commit = f"{TRANSACTIONS}/{tx}/commit"
    assert refusal(await callers.ask("bob", "POST", commit)) == OF_ANOTHER
    assert (await callers.ask("ann", "POST", commit)).status_code == 200

    shown = (await callers.ask("bob", "GET", f"{TRANSACTIONS}/{tx}")).json()
    assert (shown["status"], shown["principal"]) == ("committed", None)


async def test_it_is_told_whose_transactions_are(callers: Callers) -> None:
    ids = [await callers.started(name) for name in ("ann", "")]

    shown = (await callers.ask("ann", "GET", f"{TRANSACTIONS}/{ids[0]}")).json()
    assert shown["principal"] == "ann"
    listed = (await callers.ask("", "GET", TRANSACTIONS)).json()
    assert [each["principal"] for each in listed] == ["ann", None]


async def test_readers_by_a_transaction_need_not_own_it(callers: Callers) -> None:
    tx = await callers.started("ann")
    body = {"messages": ["x"], "transactionWritePointer": str(tx)}
    await callers.ask("ann", "POST", f"{TOPIC}/publish", body)

    polled = await callers.ask("bob", "POST", f"{TOPIC}/poll?transaction_id={tx}", {})
    assert polled.status_code == 200, polled.text
    assert [each["payload"] for each in polled.json()] == ["x"]


async def test_an_owner_is_its_principals(callers: Callers) -> None:
    path, body = "/v1/namespaces/ns/publish", {"topics": {"t": ["x"]}, "owner": "o", "sequence": 1}
    assert (await callers.ask("ann", "POST", path, body)).status_code == 200

    refused = await callers.ask("bob", "POST", path, body)
    assert refusal(refused) == OF_ANOTHER
    assert refused.json()["error"]["detail"] == {"owner": "o"}
    started = await callers.ask("bob", "POST", TRANSACTIONS, {"owner": "o", "sequence": 2})
    assert refusal(started) == OF_ANOTHER
    assert (await callers.ask("ann", "POST", path, body)).json()["duplicate"] is True


async def test_one_principal_has_no_more_in_progress_than_it_may(callers: Callers) -> None:
    for _ in range(2):
        await callers.started("ann")
    refused = await callers.ask("ann", "POST", TRANSACTIONS)

    assert refusal(refused) == (429, "principal_rate_exceeded")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["content-type"] == JSON_TYPE
    await callers.started("bob")


async def test_owners_are_for_their_principals_and_full_is_reported(callers: Callers) -> None:
    owners = f"{TRANSACTIONS}/owners"
    publish_all = f"{TOPIC.rpartition('/topics/')[0]}/publish"

    async def published(who: str, owner: str, sequence: int = 7) -> httpx.Response:
        body = {"topics": {"t": ["x"]}, "owner": owner, "sequence": sequence}
        return await callers.ask(who, "POST", publish_all, body)

    assert (await published("bob", "victim")).status_code == 200
    for number in range(14):
        assert (await published("ann", f"{number}")).status_code == 200
    assert (await callers.http.get("/ready")).json() == {"status": "ready"}
    for number in range(14, 17):
        assert (await published("ann", f"{number}")).status_code == 200
    refused = await published("ann", "17")
    assert refusal(refused) == (429, "too_many_owners")
    started = await callers.ask("ann", "POST", TRANSACTIONS, {"owner": "17", "sequence": 1})
    assert refusal(started) == (429, "too_many_owners")
    [told] = (await callers.http.get("/ready")).json()["warnings"]
    assert told.startswith("remembered owners of transactions: 18 of 20")
    metrics = (await callers.http.get("/metrics")).text
    assert "tms_transaction_owners" not in metrics, "the registry of this test is empty"

    assert (await published("bob", "victim")).json()["duplicate"] is True
    assert refusal(await published("ann", "victim", 8)) == OF_ANOTHER
    listed = (await callers.ask("ann", "GET", f"{owners}?principal=bob")).json()
    assert [(each["owner"], each["sequence"]) for each in listed] == [("victim", 7)]
    assert len((await callers.ask("ann", "GET", f"{owners}?limit=3")).json()) == 3

    forget = f"{owners}?owner=victim"
    assert refusal(await callers.ask("ann", "DELETE", forget)) == OF_ANOTHER
    assert (await callers.ask("overseer", "DELETE", forget)).status_code == 200
    missing = await callers.ask("bob", "DELETE", forget)
    assert refusal(missing) == (404, "owner_not_found")
    assert refusal(await callers.ask("bob", "DELETE", owners)) == (400, "invalid_query")
    long = await callers.ask("bob", "DELETE", f"{owners}?owner={'x' * 256}")
    assert refusal(long) == (400, "invalid_owner")
    await callers.ask("ann", "DELETE", f"{owners}?owner=0")
    assert (await published("ann", "17")).status_code == 200


async def test_a_transaction_has_its_owners_place_until_it_is_rolled_back(callers: Callers) -> None:
    publish_all = f"{TOPIC.rpartition('/topics/')[0]}/publish"
    work = {"owner": "bob's", "sequence": 1}
    begun = (await callers.ask("bob", "POST", TRANSACTIONS, work)).json()
    payload = {"messages": ["m"], "transactionWritePointer": begun["write_pointer"]}
    written = (await callers.ask("bob", "POST", f"{TOPIC}/publish", payload)).json()

    async def published(who: str, number: int) -> int:
        body = {"topics": {"t": ["x"]}, "owner": f"{who} {number}", "sequence": 1}
        return (await callers.ask(who, "POST", publish_all, body)).status_code

    assert [await published("ann", number) for number in range(18)] == [200] * 17 + [429]
    assert [await published("bob", number) for number in range(2)] == [200, 429]
    assert await published("cid", 0) == 200
    assert await published("cid", 1) == 429, "all places are taken"
    assert (await callers.ask("bob", "POST", f"{TOPIC}/rollback", written)).status_code == 200
    path = f"{TRANSACTIONS}/{begun['transaction_id']}/abort"
    assert (await callers.ask("bob", "POST", path)).status_code == 200
    assert await published("cid", 1) == 200, "its place is free"
    again = await callers.ask("bob", "POST", TRANSACTIONS, work)
    assert refusal(again) == (429, "too_many_owners")
