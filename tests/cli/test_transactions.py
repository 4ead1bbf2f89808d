"""The effects and the output of the commands for transactions and subscriptions."""

import json
import os
import re
from pathlib import Path

import pytest

import tms
from tests.cli.conftest import Run, run_command
from tests.servers.server_process import ServerProcess
from tms.cli.columns import aligned
from tms.core.limits import JSON_INTEGER_MAX
from tms.core.values.shards import ShardBy, Sharding


@pytest.fixture
def orders(run: Run) -> Run:
    run("topic", "create", "orders")
    return run


def started(run: Run) -> str:
    return run("tx", "start")[1].strip()


def payloads(run: Run, *options: str) -> list[str]:
    code, out, err = run("poll", "orders", "--json", *options)
    assert (code, err) == (0, "")
    return [json.loads(line)["payload"] for line in out.splitlines()]


def test_a_script_uses_a_transaction(orders: Run) -> None:
    tx = started(orders)
    orders("publish", "orders", "one", "--tx", tx)
    assert payloads(orders, "--committed") == []
    assert payloads(orders, "--tx", tx) == ["one"]

    assert orders("tx", "commit", tx) == (0, f"Committed {tx}.\n", "")
    assert payloads(orders, "--committed") == ["one"]
    assert orders("tx", "commit", tx)[2].startswith("The transaction has ended. (")


def test_a_transaction_is_started_at_its_home() -> None:
    def run(*words: str) -> str:
        return run_command("--url", server.url, "--namespace", "shop", *words)[1].strip()

    with ServerProcess("memory:", shard_by=ShardBy.TOPIC) as server:
        ids = [run("tx", "start", *home) for home in ((), ("--home", "sales"))]
        sharding = Sharding(3, ShardBy.TOPIC)
        homes = [sharding.home("shop"), sharding.home("shop", "sales")]
        assert [sharding.shard_of_transaction(int(each)) for each in ids] == homes == [0, 1]


def test_transactions_are_listed_and_shown(orders: Run) -> None:
    code, out, _ = orders("tx", "start", "--timeout", "60", "--json")
    assert code == 0
    tx = json.loads(out)["transaction_id"]
    orders("publish", "orders", "one", "--tx", tx)

    _, out, _ = orders("tx", "list")
    heads, *rows = out.splitlines()
    assert heads.split() == ["ID", "AGE", "TYPE", "OWNER", "CLIENT", "PRINCIPAL", "TOPICS"]
    [row] = [row for row in rows if row.startswith(tx)]
    assert re.fullmatch(tx + r"  \d+ m?s +short  -.* +tms tx start +- +c\d+:orders", row)
    listed = json.loads(orders("tx", "list", "--json")[1])
    [facts] = [each for each in listed if each["transaction_id"] == tx]
    assert (facts["status"], facts["owner"]) == ("in_progress", None)
    assert 0 <= facts["age_ms"] < 60_000 <= facts["expires_ms"] - facts["started_ms"] + 1

    _, out, _ = orders("tx", "show", tx)
    shown = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (shown["transaction_id"], shown["status"]) == (tx, "in_progress")
    assert orders("tx", "abort", tx)[1] == f"{tx} is aborted now.\n"
    assert json.loads(orders("tx", "show", tx, "--json")[1])["status"] == "aborted"


def test_owners_are_listed_and_forgotten(orders: Run) -> None:
    with tms.connect(os.environ["TMS_URL"], namespace=os.environ["TMS_NAMESPACE"]) as client:
        client.publish_all({"orders": b"one"}, owner="till", sequence=7)
    heads, *rows = orders("tx", "owners", "list")[1].splitlines()
    assert heads.split() == ["OWNER", "SEQUENCE", "AGE", "PRINCIPAL", "ORIGIN", "TRANSACTION"]
    assert [row.split()[:2] for row in rows if row.startswith("till")] == [["till", "7"]]
    assert orders("tx", "owners", "list", "--principal", "ann")[1] == ""
    assert orders("tx", "owners", "forget", "till") == (0, "Forgot till.\n", "")
    code, _, told = orders("tx", "owners", "forget", "till")
    assert (code != 0, "not remember an owner" in told) == (True, True)
    listed = json.loads(orders("tx", "owners", "list", "--json")[1])
    assert "till" not in [each["owner"] for each in listed]


def numbers_of(text: str) -> list[int]:
    found: list[int] = []
    json.loads(text, parse_int=lambda digits: found.append(int(digits)))
    return found


def test_json_has_no_number_that_programs_round(orders: Run, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"topic": "orders", "message": "one"}')
    ended, undone, invalid, listed = (started(orders) for _ in range(4))
    orders("publish", "orders", "two", "--tx", invalid)
    commands = [
        ("tx", "start"),
        ("tx", "commit", ended),
        ("tx", "abort", undone),
        ("tx", "invalidate", invalid),
        ("tx", "list"),
        ("tx", "list", "--invalid"),
        ("tx", "show", listed),
        ("publish", "orders", "three", "--tx", listed),
        ("publish-all", str(lines)),
        ("cleanup", "show"),
        ("debug", "bounds"),
        ("debug", "rows", "--topic", "orders"),
    ]

    for command in commands:
        code, out, err = orders(*command, "--json")
        assert (code, err) == (0, ""), command
        numbers = [number for line in out.splitlines() for number in numbers_of(line)]
        assert [number for number in numbers if number > JSON_INTEGER_MAX] == [], command


def test_what_hangs_is_ended_and_forgotten(orders: Run) -> None:
    assert orders("tx", "abort", tx := started(orders)) == (0, f"{tx} is aborted now.\n", "")
    assert orders("tx", "invalidate", tx := started(orders))[1] == f"{tx} is invalid now.\n"
    assert tx in orders("tx", "list", "--invalid")[1]
    assert orders("tx", "list", "--invalid", "--limit", "1")[1].count("\n") == 2
    assert orders("tx", "truncate", tx) == (0, "Removed 1 from the invalid list.\n", "")
    assert tx not in orders("tx", "list", "--invalid")[1]
    for before in ("1000", "1970-01-02"):
        assert json.loads(orders("tx", "truncate", "--before", before, "--json")[1]) == {
            "truncated": 0
        }


def test_subscriptions_are_created_listed_moved_and_deleted(orders: Run) -> None:
    assert orders("subscription", "list", "orders") == (0, "", "")
    assert orders("subscription", "create", "orders", "billing") == (
        0,
        "Created subscription billing of topic orders.\n",
        "",
    )
    orders("publish", "orders", "one", "two")
    first = json.loads(orders("poll", "orders", "--json")[1].splitlines()[0])["id"]
    orders("subscription", "create", "orders", "mail", "--after", first)

    heads, *rows = map(str.split, orders("subscription", "list", "orders")[1].splitlines())
    assert heads == ["NAME", "KIND", "VERSION", "AFTER"]
    versions = [int(row.pop(2)) for row in rows]
    assert rows == [["billing", "single", "-"], ["mail", "single", first]]
    assert min(versions) > 10**15
    assert orders("subscription", "set", "orders", "billing", "--after", first)[0] == 0
    assert json.loads(orders("subscription", "show", "orders", "billing", "--json")[1]) == {
        "name": "billing",
        "kind": "single",
        "after": first,
        "version": versions[0] + 1,
    }
    shown = orders("subscription", "show", "orders", "billing")[1].splitlines()
    assert shown[2] == f"version  {versions[0] + 1}"
    assert orders("subscription", "delete", "orders", "mail")[0] == 0
    listed = json.loads(orders("subscription", "list", "orders", "--json")[1])
    assert [each["name"] for each in listed] == ["billing"]


def test_a_subscription_gives_each_message_once(orders: Run) -> None:
    orders("subscription", "create", "orders", "billing")
    orders("publish", "orders", "one", "two", "three")
    follow = ("--subscription", "billing", "--follow", "--limit", "2")

    assert payloads(orders, "--subscription", "billing", "--limit", "1") == ["one"]
    assert payloads(orders, *follow) == ["two", "three"]
    assert payloads(orders, "--subscription", "billing", "--wait", "0.1") == []
    orders("publish", "orders", "four")
    assert payloads(orders, "--subscription", "billing", "--committed") == ["four"]


def test_many_topics_are_published_to_at_once(orders: Run, tmp_path: Path) -> None:
    orders("topic", "create", "audit")
    lines = tmp_path / "lines"
    lines.write_text(
        '{"topic": "orders", "message": "one"}\n\n'
        '{"topic": "audit", "message": {"base64": "/wA="}}\n'
        '{"topic": "orders", "message": "zwei ü"}\n'
    )
    options = ("--owner", tmp_path.name, "--sequence", "1")

    _, out, _ = orders("publish-all", str(lines), *options)
    assert out.startswith("3 messages published, in transaction ")
    again = run_command("publish-all", "-", *options, given=lines.read_bytes())[1]
    assert again == out.replace("published,", "published before,")
    assert payloads(orders, "--committed") == ["one", "zwei ü"]
    told = json.loads(run_command("publish-all", "-", "--json", given=lines.read_bytes())[1])
    assert (told["messages"], told["duplicate"]) == (3, False)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "there are no messages"),
        (b'{"topic": "t"}', "line 1: Object missing required field"),
        (b'\n{"topic": "t", "message": 5}', "line 2: Expected"),
        (b'{"topic": "t", "message": {"base64": "?"}}', "line 1: Invalid base64"),
        (b'{"topic": "t", "message": "a", "message": "b"}', "line 1: Object has the name"),
        (b"\xff", "line 1: "),
    ],
)
def test_lines_that_say_nothing_are_refused(run: Run, given: bytes, reason: str) -> None:
    code, out, err = run_command("publish-all", "-", given=given)

    assert (code, out) == (2, "")
    assert reason in " ".join(err.split())


def test_columns_stand_below_each_other() -> None:
    assert aligned(("A", "B"), [("long", "x")]) == "A     B\nlong  x"
