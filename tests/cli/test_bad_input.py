"""Input and arguments that are refused: the error says how much was published, where, and why."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run_command
from tms.cli.batches import LINE_BYTES_MAX

NOT_UTF_8 = os.fsdecode(b"\xff")
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


@pytest.fixture
def orders(run: Run) -> Run:
    assert run("topic", "create", "orders")[0] == 0
    return run


def count(run: Run) -> int:
    return run("poll", "orders")[1].count("\n")


def test_a_bad_line_says_where_it_is_and_what_was_published(orders: Run) -> None:
    given = b"key,value\n" * 2500 + b"no comma\nkey,value\n"

    code, out, err = run_command(
        "publish", "orders", "--stdin", "--key-separator", ",", given=given
    )

    assert (code, out) == (1, "")
    assert err == (
        "Published 2000 messages before this:\n"
        "line 2501 of standard input: there is no ',' in it: no comma\n"
    )
    assert count(orders) == 2000


def test_a_line_of_a_file_that_is_not_json_says_where_it_is(orders: Run, tmp_path: Path) -> None:
    schema, first, second = (tmp_path / name for name in ("order.avsc", "first", "second"))
    schema.write_text(ORDER)
    first.write_bytes(b'{"id": "1"}\n')
    second.write_bytes(b'{"id": "1"}\n{"id": "1", "id": "2"}\n')

    code, _, err = orders(
        "publish", "orders", "--schema", str(schema), "--lines", str(first), str(second)
    )

    assert code == 1
    assert err.startswith(f"Published 1 message before this:\nline 2 of {second}: ")
    assert "the name 'id' twice" in err


def test_a_line_is_bounded(orders: Run) -> None:
    given = b"short\n" + bytes(LINE_BYTES_MAX + 1)

    code, _, err = run_command("publish", "orders", "--stdin", given=given)

    assert code == 1
    assert err == (
        "Published 1 message before this:\n"
        f"line 2 of standard input is longer than {LINE_BYTES_MAX} bytes\n"
    )


@pytest.mark.parametrize(
    "command", [("publish", "orders", "--file"), ("publish-all",), ("schema", "register", "x")]
)
def test_a_whole_file_is_bounded(orders: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    endless = tmp_path / "endless"
    with endless.open("wb") as file:
        file.truncate(LINE_BYTES_MAX * 1000)

    code, out, err = orders(*command, str(endless))

    assert (code, out) == (1, "")
    assert err == f"{endless} is longer than {LINE_BYTES_MAX} bytes\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create", "new", f"owner={NOT_UTF_8}"),
        ("topic", "create", "new", f"{NOT_UTF_8}=x"),
        ("topic", "set", "orders", f"owner={NOT_UTF_8}"),
        ("publish", "orders", "x", "--header", f"{NOT_UTF_8}=x"),
        ("publish", "orders", "x", "--schema", NOT_UTF_8),
        ("publish", "orders", "x", "--if-last", NOT_UTF_8),
        ("publish-all", "/dev/null", "--owner", NOT_UTF_8),
        ("poll", "orders", "--tx", NOT_UTF_8),
        ("poll", "orders", "--from", NOT_UTF_8),
        ("poll", "orders", "--subscription", NOT_UTF_8),
        ("schema", "list", NOT_UTF_8),
        ("schema", "show", NOT_UTF_8),
        ("schema", "register", NOT_UTF_8, "/dev/null"),
        ("auth", "token", NOT_UTF_8),
        ("copy", NOT_UTF_8, "leveldb:x"),
        ("metadata", "put", "/a", NOT_UTF_8, "--store", "memory:"),
        ("topic", "list", "--namespace", NOT_UTF_8),
        ("topic", "list", "--url", f"http://{NOT_UTF_8}"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_wrong_usage(
    orders: Run, arguments: tuple[str, ...]
) -> None:
    code, out, err = orders(*arguments)

    assert (code, out) == (2, "")
    assert "\\xff" in err or "\\udcff" in err
    assert orders("topic", "list")[1] == "orders\n"
    assert "owner" not in orders("topic", "show", "orders")[1]
    assert count(orders) == 0


@pytest.mark.parametrize("given", ["é", "A", "not base64!"])
def test_a_transaction_that_is_not_base64_is_wrong_usage(orders: Run, given: str) -> None:
    code, _, err = orders("poll", "orders", "--tx", given)

    assert code == 2
    assert "not base64; write @FILE for a file" in " ".join(err.split())


def test_keys_headers_and_separators_may_be_any_bytes(orders: Run) -> None:
    orders("publish", "orders", "p", "--key", NOT_UTF_8, "--header", f"h={NOT_UTF_8}")
    given = b"k\xff1\n"
    separated = ("publish", "orders", "--stdin", "--key-separator", NOT_UTF_8)
    assert run_command(*separated, given=given)[0] == 0
    code, _, err = run_command(*separated, given=b"k\n")

    assert (code, err) == (1, "line 1 of standard input: there is no '\\\\xff' in it: k\n")
    lines = [line.split("  ", 2)[2] for line in orders("poll", "orders")[1].splitlines()]
    assert lines == ["key=\\xff  h=\\xff  p", "key=k  1"]
