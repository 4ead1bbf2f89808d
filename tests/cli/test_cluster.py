"""`tms cluster`: what is shown of a server alone, and of a cluster as a server tells it."""

import json

from tests.cli.conftest import Run, run_command
from tests.client.faulty_server import FaultyServer, answer

STATE = {
    "id": 7,
    "role": "standby",
    "leader": 4,
    "token": 2,
    "instances": [
        {
            "id": 4,
            "address": "http://a:1",
            "version": "0.1.0",
            "since_ms": 0,
            "reaches_store_since_ms": 0,
        },
        {"id": 7, "address": "http://b:1", "version": "0.1.0", "since_ms": 0},
    ],
}


def told(**changes: object) -> tuple[int, str]:
    with FaultyServer(answer(200, json.dumps({**STATE, **changes}).encode())) as server:
        code, out, _ = run_command("cluster", "--url", server.url)
    return code, out


def test_a_server_alone_says_so(run: Run) -> None:
    assert run("cluster")[:2] == (0, "This server is alone: it was started without --advertise.\n")
    assert json.loads(run("cluster", "--json")[1])["role"] == "alone"


def test_the_servers_are_shown_and_who_leads() -> None:
    code, out = told()

    assert code == 0
    heads, first, second, last = out.splitlines()
    assert heads.split() == ["ID", "ROLE", "ADDRESS", "VERSION", "SINCE", "STORE"]
    assert first.split()[:3] == ["4", "leader", "http://a:1"]
    assert second.split()[:3] == ["7", "standby", "http://b:1"]
    assert not first.endswith("not reached")
    assert second.endswith("  not reached")
    assert last == "the leader is 4, with token 2; 7 answered."
    assert "7   taking over  http://b:1" in told(role="taking over", leader=7)[1]
    assert told(leader=None, token=None)[1].endswith("there is no leader now; 7 answered.\n")


def test_an_answer_that_is_none_is_told() -> None:
    code, out = told(role="nonsense")

    assert (code, out) == (1, "")
