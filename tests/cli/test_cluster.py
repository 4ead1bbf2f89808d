"""`tms cluster`: its output for a standalone server, and for a cluster."""

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


def test_an_answer_that_is_none_is_reported() -> None:
    code, out = told(role="nonsense")

    assert (code, out) == (1, "")


SHARDS = {
    "by": "topic",
    "shards": [{"shard": shard, "leader": 4, "token": 2} for shard in range(16)],
}


def where(place: str, state: dict[str, object]) -> str:
    with FaultyServer(answer(200, json.dumps(state).encode())) as server:
        code, out, _ = run_command("cluster", "where", place, "--url", server.url)
    assert code == 0
    return out.removesuffix("\n")


def test_where_a_topic_is_follows_from_its_name() -> None:
    state = STATE | SHARDS
    leads = "; 4 leads it, http://a:1"
    assert where("default:orders", state) == f"shard 7 of 16, by topic{leads}"
    assert where("default:orders--dead", state) == f"shard 7 of 16, by topic{leads}"
    assert where("shop", state | {"by": "namespace"}) == f"shard 2 of 16, by namespace{leads}"
    assert where("shop:orders", STATE) == f"shard 0 of 1{leads}"
    assert (
        where(
            "shop",
            {
                **state,
                "by": "namespace",
                "shards": [{"shard": shard, "leader": None, "token": None} for shard in range(16)],
            },
        )
        == "shard 2 of 16, by namespace"
    )
    assert told(**SHARDS)[1].splitlines()[-1] == "16 shards by topic; 7 answered."
    alone = "16 shards by topic; this server is alone: it was started without --advertise.\n"
    assert told(**SHARDS, role="alone")[1] == alone


def test_a_server_alone_has_a_shard_without_a_leader(run: Run) -> None:
    assert run("cluster", "where", "shop:orders")[:2] == (0, "shard 0 of 1\n")
    for wrong in ("shop:a.b", "a-b", ":orders", "shop:", ""):
        assert run("cluster", "where", wrong)[0] == 4


def test_a_command_names_the_shard_that_it_asks_for(run: Run) -> None:
    for arguments in (
        ("cleanup", "show"),
        ("cleanup", "run"),
        ("debug", "rows"),
        ("debug", "tables"),
        ("debug", "verify"),
        ("debug", "bounds"),
        ("debug", "export"),
    ):
        assert run(*arguments, "--shard", "0")[0] == 0
        code, _, err = run(*arguments, "--shard", "1")
        assert code == 4
        assert "shard" in err


def test_the_rule_of_shards_needs_their_number() -> None:
    store = ("init", "--store", "hbase://h:1/tms")
    code, _, err = run_command(*store, "--shard-by", "topic")
    assert (code, "give --shards too" in err) == (2, True)
    code, _, err = run_command("init", "--store", "memory:", "--shards", "2")
    assert (code, err) == (2, "memory: has one shard: several need HBase.\n")
    for wrong in (("--shards", "0"), ("--shards", "65"), ("--shards", "2", "--shard-by", "name")):
        assert run_command(*store, *wrong)[0] == 2


def test_each_shard_is_shown_and_which_are_not_served() -> None:
    shards = [
        {"shard": 0, "leader": 4, "token": 12, "state": "serving", "wish": 4},
        {"shard": 1, "leader": None, "token": None, "state": "free", "wish": None},
    ]
    state = {**STATE, "leader": None, "token": None, "by": "topic", "shards": shards}
    with FaultyServer(answer(200, json.dumps(state).encode())) as server:
        code, out, _ = run_command("cluster", "--shards", "--url", server.url)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[:3] == [
        ["SHARD", "LEADER", "TOKEN", "STATE", "WISH"],
        ["0", "4", "12", "serving", "4"],
        ["1", "-", "-", "free", "-"],
    ]
    assert lines[4] == ["ID", "ROLE", "SHARDS", "ADDRESS", "VERSION", "SINCE", "STORE"]
    assert lines[5][:4] == ["4", "leader", "1", "http://a:1"]
    assert lines[6][:4] == ["7", "standby", "0", "http://b:1"]
    assert out.splitlines()[-1] == "2 shards by topic, 1 not served: 1; 7 answered."


def test_a_shard_is_moved_by_a_wish(run: Run) -> None:
    for server, wishes, told in (
        ("7", b'{"2": 7}', "Shard 2 is to be led by 7.\n"),
        ("auto", b"{}", "Shard 2 is to be led by whom the balance says.\n"),
    ):
        with FaultyServer(answer(200, wishes)) as faulty:
            code, out, _ = run_command("cluster", "move", "2", server, "--url", faulty.url)
        assert (code, out) == (0, told)
    code, out, err = run("cluster", "move", "0", "7")
    assert (code, out) == (4, "")
    assert "no shards are shared" in err
    assert run("cluster", "move", "0", "b")[0] == 2
