"""`tms status` and `tms ui`."""

import json
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Run, run_command
from tests.client.faulty_server import FaultyServer, answer
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until

STATUS = {
    "time_ms": 0,
    "findings": [
        {
            "kind": "disk_filling",
            "where": "the store's disk",
            "text": "1 MiB are free.",
            "advice": "Make room \u202e\u001b[31m.",
            "is_urgent": True,
        }
    ],
    "messages_in_s": 2.5,
    "bytes_in_s": 0.0,
    "messages_out_s": 1.0,
    "bytes_out_s": 0.0,
    "requests_s": 4.0,
    "in_progress": 3,
    "oldest_transaction": "17",
    "oldest_age_ms": 61_000,
    "oldest_client": "im\x1bport",
    "store_bytes": 5 << 20,
    "free_bytes": 1 << 20,
    "disk_bytes": 9,
    "full_in_s": 7200.0,
    "readers": [
        {
            "namespace": "ns",
            "topic": "t",
            "name": "workers",
            "kind": "shared",
            "messages": 12,
            "seconds": 61.0,
            "is_at_least": True,
            "open": 4,
        }
    ],
    "next_reader": None,
    "missing_shards": [],
}


def test_a_server_is_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess("memory:") as server:  # on the shared one, other tests leave findings
        monkeypatch.setenv("TMS_URL", server.url)
        run("topic", "create", "orders")
        run("subscription", "create", "orders", "billing")

        wait_until(lambda: "billing" in run("status")[1])  # a busy server shows them a little late

        code, out, err = run("status", "--check")
        assert (code, err) == (0, ""), out
        facts: dict[str, Any] = {"messages_in_s": None}
        while facts["messages_in_s"] is None:  # a server has no rates in its first second
            facts = json.loads(run("status", "--json")[1])
        assert [each["name"] for each in facts["readers"]] == ["billing"]
        assert set(facts) == set(STATUS)


def test_all_that_is_told_is_shown_and_does_nothing_to_a_terminal() -> None:
    status = answer(200, json.dumps(STATUS).encode())
    with FaultyServer(status, status) as server:
        code, out, _ = run_command("status", "--url", server.url)
        assert run_command("status", "--check", "--url", server.url)[0] == 1

    assert code == 0
    assert out.splitlines() == [
        r"URGENT the store's disk: 1 MiB are free. Make room \u202e\u001b[31m.",
        "In: 2.5 messages/s, 0.000 MiB/s. Out: 1.0 messages/s, 0.000 MiB/s.",
        r"3 transactions are in progress. The oldest is 17 of client im\u001bport, 1 min old.",
        "The store uses 5 MiB; 1 MiB are free, and full in 2 h.",
        "READER   TOPIC  KIND   BEHIND  OLDEST  OPEN",
        "workers  ns:t   group  12+     1 min   4",
    ]


def test_one_transaction_is_counted_as_one() -> None:
    told = json.dumps(STATUS | {"in_progress": 1}).encode()
    with FaultyServer(answer(200, told)) as server:
        out = run_command("status", "--url", server.url)[1]
    assert "\n1 transaction is in progress. The oldest is 17" in out


def test_the_console_has_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with FaultyServer(*[answer(200, b"")] * 3) as server:
        url = f"{server.url}/console"
        assert run_command("ui", "--url", f"{server.url}/")[:2] == (0, f"{url}\n")
        told = run_command("ui", "--url", server.url, "--json")[1]
        assert json.loads(told) == {"url": url}
        run_command("ui", "--url", server.url, "--open")
    assert opened == [url]


def test_a_server_reports_where_its_console_is(run: Run) -> None:
    code, out, err = run("ui")
    assert (code, err) == (0, "")
    assert httpx.get(out.strip(), trust_env=False, follow_redirects=True).status_code == 200


def test_if_there_is_no_console_no_url_is_reported() -> None:
    gone = json.dumps({"error": {"code": "not_found", "message": "Nothing.", "detail": {}}})
    with FaultyServer(answer(404, gone.encode())) as server:
        code, out, err = run_command("ui", "--url", server.url)
    assert (code, out) == (3, "")
    assert err
