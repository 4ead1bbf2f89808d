"""Cleanup over REST and on the command line."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.api.rest import NOW_MS, Rest, live, refusal
from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess
from tms.transactions.foreign_manager import TransactionsOfOthers

NOTHING_INVALID = {
    "count": 0,
    "oldest": None,
    "not_inverted": 0,
    "held_by": None,
    "waits_until_ms": None,
}

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False])
async def rest(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[Rest]:
    """An application with its own transactions, and one without."""
    async with live(own=request.param) as opened_rest:
        yield opened_rest


async def test_a_pass_on_demand_and_its_state(rest: Rest) -> None:
    await rest.create(ttl=60)
    await rest.post("publish", {"messages": ["old"] * 10})
    rest.clock.advance(61_000)
    before = (await rest.http.get("/v1/cleanup")).json()
    assert (before["passes"], before["last_started_ms"]) == (0, None)

    answer = await rest.http.post("/v1/cleanup?wait=30")

    state = answer.json()
    assert answer.status_code == 200
    assert (state["passes"], state["dropped_rows"], state["last_rows"]) == (1, 9, 9)
    assert state["last_started_ms"] == NOW_MS + 61_000
    assert (state["invalid"] or NOTHING_INVALID) == NOTHING_INVALID
    assert rest.metric("tms_cleanup_dropped_rows_total", table="message", reason="ttl") == 9


async def test_a_compact_topic(rest: Rest) -> None:
    await rest.create(cleanup="compact")
    mixed = {"messages": [{"payload": "1", "key": "a"}, "no key"]}
    assert refusal(await rest.post("publish", mixed)) == (400, "key_required")
    assert (await rest.post("publish", mixed)).json()["error"]["detail"]["index"] == 1
    stored = {"messages": mixed["messages"][:1], "transactionWritePointer": str(NOW_MS * 1_000_000)}
    assert refusal(await rest.post("store", stored)) == (409, "topic_is_compact")
    writes = [("a", "1"), ("b", "2"), ("a", "3"), ("b", None), ("c", "4")]
    messages = [{"payload": payload, "key": key} for key, payload in writes]
    assert (await rest.post("publish", {"messages": messages})).status_code == 200

    state = (await rest.http.post("/v1/cleanup?wait=30")).json()
    assert state["dropped_by_reason"] == {"superseded": 2}
    left = (await rest.post("poll", {})).json()
    assert [message["payload"] for message in left] == ["3", None, "4"]

    rest.clock.advance(25 * 3_600_000)
    state = (await rest.http.post("/v1/cleanup?wait=30")).json()
    assert state["dropped_by_reason"] == {"superseded": 2, "tombstone": 1}


async def test_bounds_of_a_topic(rest: Rest) -> None:
    await rest.create(retention_messages=2)
    for number in range(6):
        await rest.post("publish", {"messages": [f"{number}"]})
        rest.clock.advance(1)
    await rest.http.post("/v1/cleanup?wait=30")
    assert [message["payload"] for message in (await rest.post("poll", {})).json()] == ["4", "5"]
    assert rest.metric("tms_cleanup_bound_held_seconds") == 0


async def test_how_long_a_transaction_holds_a_bound(rest: Rest) -> None:
    if isinstance(rest.services.transactions, TransactionsOfOthers):
        return  # there is none to report
    await rest.create(retention_messages=2)
    started = (await rest.http.post("/v1/transactions", json={})).json()
    stored = {"messages": ["a"], "transactionWritePointer": started["transaction_id"]}
    assert (await rest.post("store", stored)).status_code == 200
    for number in range(6):
        rest.clock.advance(1_000)
        await rest.post("publish", {"messages": [f"{number}"]})
    await rest.http.post("/v1/cleanup?wait=30")
    assert len((await rest.post("poll", {})).json()) == 6
    assert rest.metric("tms_cleanup_bound_held_seconds") == 6
    await rest.http.post(f"/v1/transactions/{started['transaction_id']}/abort")
    await rest.http.post("/v1/cleanup?wait=30")
    assert len((await rest.post("poll", {})).json()) == 2
    assert rest.metric("tms_cleanup_bound_held_seconds") == 0


async def test_a_bound_where_transactions_are_managed_elsewhere(rest: Rest) -> None:
    """Stored messages may be committed for the lifetime of a transaction, plus a grace."""
    if not isinstance(rest.services.transactions, TransactionsOfOthers):
        return
    await rest.create(retention_messages=2)
    stored = {"messages": ["a"], "transactionWritePointer": str(NOW_MS * 1_000_000)}
    assert (await rest.post("store", stored)).status_code == 200
    for number in range(6):
        rest.clock.advance(1)
        await rest.post("publish", {"messages": [f"{number}"]})
    await rest.http.post("/v1/cleanup?wait=30")
    assert len((await rest.post("poll", {})).json()) == 6
    rest.clock.advance(50 * 3_600_000)
    await rest.http.post("/v1/cleanup?wait=30")
    assert len((await rest.post("poll", {})).json()) == 2


async def test_a_wrong_wait_is_refused(rest: Rest) -> None:
    assert refusal(await rest.http.post("/v1/cleanup?wait=x")) == (400, "invalid_wait")


def test_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess("memory:") as server:
        monkeypatch.setenv("TMS_URL", server.url)
        code, out, _ = run_command("cleanup", "run")
        assert code == 0
        assert out.startswith("1 passes, 0 not finished")
        assert "On the invalid list: 0 write pointers." in out
        shown = json.loads(run_command("cleanup", "show", "--json")[1])
        assert server.stop() == 0

    assert shown["passes"] == 1
