"""The effects and the output of the client's commands."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

import tms
from tests.cli.conftest import Run, run_command
from tests.servers.server_process import COMMAND, ROOT, ServerProcess, environment
from tests.waiting import WAIT_S_MAX
from tms.wire.transaction_codec import encode_transaction


def started(run: Run) -> str:
    """Return the id of a new transaction."""
    code, out, _ = run("tx", "start", "--timeout", "60")
    assert code == 0
    return out.strip()


def ids(run: Run) -> list[str]:
    _, out, _ = run("poll", "orders", "--json")
    return [json.loads(line)["id"] for line in out.splitlines()]


@pytest.fixture
def orders(run: Run) -> Run:
    assert run("topic", "create", "orders") == (0, "Created topic orders.\n", "")
    return run


def test_topics_are_created_listed_shown_changed_and_deleted(run: Run) -> None:
    assert run("topic", "list") == (0, "", "")
    run("topic", "create", "orders", "--ttl", "60", "owner=shop", "note=a=b")
    run("topic", "create", "bills")

    assert run("topic", "list") == (0, "bills\norders\n", "")
    assert run("topic", "show", "orders") == (
        0,
        "generation  1\nnote        a=b\nowner       shop\nttl         60\n",
        "",
    )
    assert run("topic", "set", "orders", "owner=me") == (0, "Changed topic orders.\n", "")
    shown = json.loads(run("topic", "show", "orders", "--json")[1])
    assert shown == {
        "name": "orders",
        "properties": {"generation": "1", "owner": "me", "ttl": "604800"},
    }
    assert run("topic", "delete", "orders") == (0, "Deleted topic orders.\n", "")
    assert json.loads(run("--json", "topic", "list")[1]) == ["bills"]


def test_options_stand_before_the_command_or_behind_it(run: Run, server: ServerProcess) -> None:
    run("topic", "create", "orders", "--namespace", "elsewhere")

    assert run("--namespace", "elsewhere", "topic", "list")[1] == "orders\n"
    assert run("--url", "http://127.0.0.1:1", "topic", "list", "--url", server.url)[0] == 0
    assert run("topic", "list")[1] == ""


def test_messages_are_published_and_polled(orders: Run) -> None:
    assert orders("publish", "orders", "one", "zwei ü") == (0, "", "Published 2 messages.\n")

    code, out, err = orders("poll", "orders")

    assert (code, err) == (0, "")
    first, second = (line.split("  ") for line in out.splitlines())
    assert [first[2], second[2]] == ["one", "zwei ü"]
    assert first[1] == ids(orders)[0]
    assert first[0].endswith("Z")
    assert orders("poll", "orders", "--from", first[0])[1] == out
    assert orders("poll", "orders", "--from", first[1])[1] == out
    assert orders("poll", "orders", "--after", first[1])[1] == "  ".join(second) + "\n"
    assert orders("poll", "orders", "--limit", "1")[1] == "  ".join(first) + "\n"
    assert orders("poll", "orders", "--from", "2100-01-01", "--wait", "0.1")[1] == ""


def test_json_lines_say_what_is_not_text_in_base64(orders: Run, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\x00\n")
    orders("publish", "orders", "text")
    orders("publish", "orders", "--file", str(tmp_path / "binary"))

    first, second = map(json.loads, orders("poll", "orders", "--json")[1].splitlines())

    assert (first["payload"], len(first["id"])) == ("text", 40)
    assert first["timestamp"] == int(first["id"][:16], 16)
    assert base64.b64decode(second["payload_base64"]) == b"\xff\x00\n"
    assert orders("poll", "orders")[1].splitlines()[1].endswith(r"  \xff\u0000\n")


def test_a_terminal_is_not_sent_what_it_would_obey(orders: Run) -> None:
    orders("publish", "orders", "\x1b[2J\r\nno")

    assert orders("poll", "orders")[1].endswith("  \\u001b[2J\\r\\nno\n")


def test_lines_come_from_standard_input(orders: Run) -> None:
    lines = b"".join(b"%d\n" % number for number in range(2500)) + b"\nlast"
    assert run_command("publish", "orders", "--stdin", given=lines) == (
        0,
        "",
        "Published 2502 messages.\n",
    )

    payloads = [
        json.loads(line)["payload"] for line in orders("poll", "orders", "--json")[1].splitlines()
    ]
    assert payloads == [*map(str, range(2500)), "", "last"]


@pytest.mark.parametrize("form", [(), ("--lines",)])
def test_a_hyphen_is_standard_input(orders: Run, form: tuple[str, ...]) -> None:
    code, out, err = run_command("publish", "orders", *form, "-", given=b"a\nb\n")
    assert (code, out, err) == (0, "", "Published 2 messages.\n")
    polled = orders("poll", "orders", "--json")[1].splitlines()
    assert [json.loads(line)["payload"] for line in polled] == ["a", "b"]


def test_topics_are_listed_in_the_order_of_their_numbers(run: Run) -> None:
    for name in ("t10", "t2", "T3", "2", "10", "t"):
        run("topic", "create", name)
    names = ["2", "10", "t", "t2", "T3", "t10"]
    assert run("topic", "list")[1].split() == names
    assert json.loads(run("topic", "list", "--json")[1]) == names


def test_lines_and_whole_files_are_published_in_order(orders: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb\n")
    two.write_bytes(b"c")
    orders("publish", "orders", "--lines", str(one), str(two))
    orders("publish", "orders", "--file", str(one), str(two))

    out = orders("poll", "orders", "--json")[1]
    assert [json.loads(line)["payload"] for line in out.splitlines()] == [
        "a",
        "b",
        "c",
        "a\nb\n",
        "c",
    ]


def test_a_transactional_publish_prints_what_rollback_takes(orders: Run) -> None:
    pointer = started(orders)
    tx = tms.Transaction(read_pointer=int(pointer), transaction_id=1, write_pointer=1)
    encoded = base64.b64encode(encode_transaction(tx)).decode()
    _, printed, _ = orders("publish", "orders", "one", "two", "--tx", pointer)
    assert len(orders("poll", "orders", "--tx", encoded)[1].splitlines()) == 2

    assert orders("rollback", "orders", printed.strip()) == (
        0,
        "Rolled back in topic orders.\n",
        "",
    )

    assert orders("poll", "orders", "--tx", encoded)[1] == ""
    assert len(ids(orders)) == 2


def test_a_transaction_comes_from_a_file_too(orders: Run, tmp_path: Path) -> None:
    orders("publish", "orders", "one")
    file = tmp_path / "tx"
    file.write_bytes(
        encode_transaction(tms.Transaction(read_pointer=1, transaction_id=2, write_pointer=2))
    )

    assert orders("poll", "orders", "--tx", f"@{file}")[1].endswith("  one\n")


def test_how_long_is_given_with_units(orders: Run) -> None:
    assert orders("topic", "create", "short", "--ttl", "12h")[0] == 0
    assert orders("topic", "show", "short")[1].split()[-1] == "43200"
    assert orders("poll", "short", "--wait", "10ms") == (0, "", "")


def test_a_program_gets_the_ids_of_what_it_publishes(orders: Run) -> None:
    code, out, _ = orders("publish", "orders", "one", "two", "--json")

    assert code == 0
    told = json.loads(out)
    assert told == {"messages": 2, "ids": ids(orders), "rollback_range": None}


def test_what_is_buffered_is_published_at_the_end(orders: Run) -> None:
    pointer = started(orders)

    assert orders("publish", "orders", "one", "--tx", pointer, "--buffer") == (
        0,
        "",
        "Stored 1 message.\n",
    )
    assert ids(orders) == []
    code, out, _ = orders("publish", "orders", "--tx", pointer, "--json")

    assert code == 0
    assert json.loads(out)["rollback_range"].startswith(pointer + ":")
    assert len(ids(orders)) == 1


def test_following_gives_as_many_as_asked_for(orders: Run) -> None:
    orders("publish", "orders", "one", "two", "three")

    out = orders("poll", "orders", "--follow", "--limit", "2")[1]
    assert [line.split("  ")[2] for line in out.splitlines()] == ["one", "two"]


def test_a_store_in_this_process_does_without_a_server(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    run_command("--url", url, "topic", "create", "orders")
    run_command("--url", url, "publish", "orders", "kept")

    assert run_command("--url", url, "poll", "orders")[1].endswith("  kept\n")


def test_the_version_is_reported() -> None:
    assert run_command("version") == (0, f"{tms.__version__}\n", "")
    assert json.loads(run_command("version", "--json")[1]) == {"version": tms.__version__}


def test_a_topic_is_trimmed(orders: Run) -> None:
    orders("publish", "orders", "one")
    orders("publish", "orders", "two")
    first, second = ids(orders)

    assert orders("topic", "trim", "orders", "--before", "2020-01-01")[0] == 0
    assert ids(orders) == [first, second]
    assert orders("topic", "trim", "orders", "--before", second) == (
        0,
        f"Trimmed topic orders before {second}.\n",
        "",
    )
    assert second in ids(orders)
    code, _, err = orders("topic", "trim", "orders", "--before", "2100-01-01")
    assert (code, "must be in the past" in err) == (4, True)
    assert orders("topic", "trim", "orders", "--before", "start")[0] == 2
    assert orders("topic", "trim", "orders")[0] == 2


def test_what_is_there_may_be_asked_for_again(run: Run) -> None:
    created = ("topic", "create", "orders", "--if-absent", "--ttl", "60")
    assert run(*created) == (0, "Created topic orders.\n", "")
    run("publish", "orders", "kept")
    assert run(*created, "owner=shop") == (0, "Topic orders exists already.\n", "")
    assert "owner" not in run("topic", "show", "orders")[1]
    assert json.loads(run(*created, "--json")[1]) == {"created": None, "exists": "orders"}
    assert run("topic", "create", "orders")[0] == 4
    assert run("topic", "create", "a.b", "--if-absent")[0] == 4
    assert "give --if-absent" in run("topic", "create", "new", "exist_ok=1")[2]

    subscribed = ("subscription", "create", "orders", "billing", "--if-absent")
    assert run(*subscribed)[1] == "Created subscription billing of topic orders.\n"
    run("subscription", "set", "orders", "billing", "--after", ids(run)[0])
    assert run(*subscribed) == (0, "Subscription billing of topic orders exists already.\n", "")
    assert ids(run)[0] in run("subscription", "show", "orders", "billing")[1]


def in_a_terminal(answer: bytes, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command in a terminal in which somebody types an answer; return its code and output."""
    person, terminal = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment() | variables,
        cwd=ROOT,
    ) as process:
        os.close(terminal)
        os.write(person, answer)
        try:
            code = process.wait(WAIT_S_MAX)
        finally:
            process.kill()
        told = os.read(person, 65536).decode()
        os.close(person)
    return code, told


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", ["orders"]), (b"y\n", [])])
def test_a_person_is_asked_before_a_topic_is_deleted(
    orders: Run, server: ServerProcess, answer: bytes, left: list[str]
) -> None:
    namespace = os.environ["TMS_NAMESPACE"]
    told = {"TMS_URL": server.url, "TMS_NAMESPACE": namespace}

    code, said = in_a_terminal(answer, "topic", "delete", "orders", **told)

    assert f"Delete topic {namespace}:orders and all its messages? [y/N]" in said
    assert (code == 0) is (left == [])
    assert orders("topic", "list")[1].split() == left


def test_who_is_sure_and_who_is_not_a_person_are_not_asked(orders: Run) -> None:
    assert orders("topic", "delete", "orders") == (0, "Deleted topic orders.\n", "")
    orders("topic", "create", "orders")
    assert orders("topic", "delete", "orders", "--yes") == (0, "Deleted topic orders.\n", "")


def test_rows_of_a_topic_that_never_was_are_not_found(orders: Run) -> None:
    for table in ("message", "payload", "metadata", "subscription"):
        code, out, err = orders("debug", "rows", "--topic", "nosuch", "--table", table)
        assert (code, out) == (3, "")
        assert err.startswith("There is no topic nosuch in namespace ")
    assert orders("debug", "rows", "--topic", "orders") == (0, "", "")
    orders("publish", "orders", "x")
    orders("topic", "delete", "orders")
    assert orders("debug", "rows", "--topic", "orders")[0] == 0


def test_all_lists_are_in_the_order_of_numbers(run: Run) -> None:
    run("topic", "create", "t")
    for name in ("a10", "a2", "A3"):
        run("group", "create", "t", name)
        run("namespace", "set", f"sorted_{name}", "--ttl-max", "1d")
    lists = (("group", "list", "t"), ("subscription", "list", "t"), ("namespace", "list"))
    for command in lists:
        names = [each["name"] for each in json.loads(run(*command, "--json")[1])]
        names = [name.removeprefix("sorted_") for name in names if name.endswith(("2", "3", "10"))]
        assert names == ["a2", "A3", "a10"], command
    for name in ("a10", "a2", "A3"):
        assert run("namespace", "delete", f"sorted_{name}")[0] == 0
