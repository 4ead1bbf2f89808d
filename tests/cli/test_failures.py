"""A command that fails prints one line, and has a fitting exit code."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_command
from tests.client.faulty_server import FaultyServer, answer

ID = "0" * 40


def test_no_server(run: Run) -> None:
    code, out, err = run_command("--url", "http://127.0.0.1:1", "topic", "list")

    assert (code, out) == (6, "")
    assert err.startswith("No server at http://127.0.0.1:1 (")
    assert "`tms serve`" in err
    assert "--url" in err
    assert err.count("\n") == 1


def test_no_topic(run: Run) -> None:
    for command in (
        ("topic", "show", "none"),
        ("poll", "none"),
        ("poll", "none", "--follow"),
        ("publish", "none", "x"),
        ("publish", "none", "--stdin"),
    ):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert err.startswith("There is no topic none in namespace c")
        assert "`tms topic create none`" in err


def test_other_refusals_say_what_the_server_says(run: Run) -> None:
    run("topic", "create", "orders")

    assert run("topic", "create", "orders")[::2][1].startswith("A topic with this name exists")
    assert run("topic", "create", "more", "--ttl", "0")[2].startswith("A topic's ttl is a whole")
    assert run("topic", "create", "a.b")[2].startswith("A topic's name has")
    assert run("publish", "orders", "x", "--tx", "5")[2].startswith("The transaction ")
    assert run("tx", "show", "5")[2].startswith("The transaction was never started here")


def test_no_subscription(run: Run) -> None:
    run("topic", "create", "orders")
    for command in (
        ("subscription", "show", "orders", "billing"),
        ("subscription", "set", "orders", "billing", "--after", ID),
        ("subscription", "delete", "orders", "billing"),
        ("poll", "orders", "--subscription", "billing"),
    ):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert ":orders has no subscription billing" in err
        assert "`tms subscription create orders billing`" in err


def test_a_server_of_something_else() -> None:
    with FaultyServer(answer(404, b"<html>")) as server:
        code, _, err = run_command("--url", server.url, "topic", "list")

    assert code == 1
    assert err == (
        f"{server.url} answers, but it is not TMS: it answers 404. Check --url or TMS_URL.\n"
    )


def test_input_that_fails_midway_says_how_far_it_came(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "orders")
    large = tmp_path / "large"
    large.write_bytes(bytes(11 * 1024 * 1024))
    small = tmp_path / "small"
    small.write_bytes(b"x")

    code, _, err = run("publish", "orders", "--file", str(small), str(large), str(small))

    assert code == 4
    assert err.startswith("Published 1 message before this:\nA message is over the cap")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("publish", "t"), "give messages, or one of"),
        (("publish", "t", "--stdin", "x"), "either as arguments or by --stdin"),
        (("publish", "t", "--lines"), "name the files after --lines"),
        (("publish", "t", "--lines", "--file", "x"), "only one of"),
        (("publish", "t", "--file", "/no/such"), "/no/such cannot be read: No such file"),
        (("publish", "t", "x", "--buffer"), "give --tx"),
        (("publish", "t", "--tx", "5", "--buffer"), "give messages"),
        (("publish", "t", "x", "--tx", "0"), "--tx"),
        (("poll", "t", "--from", "noon"), "'noon' is not a valid time"),
        (("poll", "t", "--from", "z" * 40), "40 hexadecimal digits"),
        (("poll", "t", "--from", "1785585600"), "multiply it by 1000"),
        (("poll", "t", "--after", "12"), "40 hexadecimal digits"),
        (("poll", "t", "--from", "1", "--after", ID), "either --from or --after"),
        (("poll", "t", "--follow", "--wait", "1"), "cannot be used with --tx or --wait"),
        (("poll", "t", "--tx", "?"), "not base64"),
        (("poll", "t", "--tx", "AAAA"), "not a Tephra TransactionCodec"),
        (("poll", "t", "--tx", "@/no/such"), "cannot be read"),
        (("poll", "t", "--limit", "0"), "--limit"),
        (("poll", "t", "--tx", "5", "--committed"), "either --tx or --committed"),
        (("poll", "t", "--subscription", "s", "--from", "1"), "--subscription cannot be used with"),
        (("subscription", "create", "t", "s", "--after", "12"), "40 hexadecimal digits"),
        (("subscription", "set", "t", "s"), "--after"),
        (("tx", "truncate"), "either ids or --before"),
        (("tx", "truncate", "5", "--before", "1"), "either ids or --before"),
        (("tx", "truncate", "--before", "start"), "is not a valid time such as"),
        (("publish", "t", "m", "--at", "noon"), "or 1785585600000"),
        (("tx", "truncate", "--before", "1785585600"), "multiply it by 1000"),
        (("tx", "truncate", "--before", "0" * 40), "is not a valid time"),
        (("tx", "show", "x"), "valid integer"),
        (("publish-all", "/no/such"), "/no/such cannot be read"),
        (("schema", "register", "s", "/no/such"), "/no/such cannot be read: No such file"),
        (("rollback", "t", "5"), "is not a valid rollback range"),
        (("topic", "create", "t", "x"), "is not KEY=VALUE"),
        (("topic", "create", "t", "ttl=5"), "--ttl DURATION"),
        (("--url", "localhost", "topic", "list"), "give http://HOST:PORT"),
        (("topic", "create", "t", "--ttl", "soon"), "'soon' is not a valid duration"),
        (("topic", "create", "t", "--ttl", "1.5s"), "not a whole number of seconds"),
        (("poll", "t", "--wait", "-1"), "-1 is less than 0 s"),
        (("tx", "start", "--timeout", "0s"), "0s is less than 1 s"),
        (("nothing",), "No such command"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    assert reason in " ".join(err.split())


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("topic",),
        ("topic", "create"),
        ("topic", "list"),
        ("topic", "show"),
        ("topic", "set"),
        ("topic", "delete"),
        ("subscription",),
        ("subscription", "create"),
        ("subscription", "list"),
        ("subscription", "show"),
        ("subscription", "set"),
        ("subscription", "delete"),
        ("tx",),
        ("tx", "list"),
        ("tx", "show"),
        ("tx", "start"),
        ("tx", "commit"),
        ("tx", "abort"),
        ("tx", "invalidate"),
        ("tx", "truncate"),
        ("publish",),
        ("publish-all",),
        ("poll",),
        ("rollback",),
        ("serve",),
        ("config",),
        ("doctor",),
        ("version",),
    ],
)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    code, out, err = run_command(*command, "--help")

    assert (code, err) == (0, "")
    assert out.startswith("Usage: tms " + " ".join(command))
