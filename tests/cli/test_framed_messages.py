"""Keys and headers on the command line."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run, run_command


@pytest.fixture
def prices(run: Run) -> Run:
    assert run("topic", "create", "prices")[0] == 0
    return run


def rows(run: Run) -> list[dict[str, Any]]:
    _, out, _ = run("poll", "prices", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    for row in found:
        del row["id"], row["timestamp"]
    return found


def test_a_key_and_headers_are_published_and_polled(prices: Run) -> None:
    headers = ("--header", "currency=EUR", "--header", "note=a=b")
    prices("publish", "prices", "19.90", "20.10", "--key", "apples", *headers)
    published = prices("publish", "prices", "--tombstone", "--key", "apples")

    assert published == (0, "", "Published 1 message.\n")
    row = {"key": "apples", "headers": {"currency": "EUR", "note": "a=b"}}
    assert rows(prices) == [
        {**row, "payload": "19.90"},
        {**row, "payload": "20.10"},
        {"key": "apples", "payload": None},
    ]
    lines = prices("poll", "prices")[1].splitlines()
    assert lines[0].endswith("  key=apples  currency=EUR  note=a=b  19.90")
    assert lines[2].endswith("  key=apples  (no payload)")


def test_a_filter_chooses_what_is_polled(prices: Run) -> None:
    for key in ("apples", "pears", "apricots"):
        prices("publish", "prices", key, "--key", key, "--header", "unit=kg")
    chosen = ("poll", "prices", "--filter", 'key ^= "ap" and header.unit exists')

    assert [line.split()[-1] for line in prices(*chosen)[1].splitlines()] == ["apples", "apricots"]
    for more in ((), ("--follow",), ("--decode",)):
        lines = prices(*chosen, "--limit", "1", *more)[1].splitlines()
        assert [line.count("apples") > 0 for line in lines] == [True]
    code, _, error = prices("poll", "prices", "--filter", "key is")
    assert code != 0
    assert "position=5" in error
    prices("subscription", "create", "prices", "s")
    for _ in range(2):
        prices("publish", "prices", "more", "--key", "pears")
        prices(*chosen, "--subscription", "s")
    shown = json.loads(prices("subscription", "show", "prices", "s", "--json")[1])
    last = json.loads(prices("poll", "prices", "--json")[1].splitlines()[-1])
    assert shown["after"] == last["id"]


def test_each_line_has_a_key_of_its_own(prices: Run) -> None:
    given = b"apples\t1\npears\t2\t3\n\tno key\n"
    run_command("publish", "prices", "--stdin", "--key-separator", "\t", given=given)

    assert rows(prices) == [
        {"key": "apples", "payload": "1"},
        {"key": "pears", "payload": "2\t3"},
        {"key": "", "payload": "no key"},
    ]


def test_what_is_not_text_is_reported_in_base64(prices: Run) -> None:
    prices("publish", "prices", "p", "--key", "\udcff", "--header", "h=\udcfe")

    assert rows(prices) == [
        {"key_base64": "/w==", "headers": {"h": {"base64": "/g=="}}, "payload": "p"}
    ]
    assert prices("poll", "prices")[1].endswith("  key=\\xff  h=\\xfe  p\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("p", "--header", "no value"), "NAME=VALUE"),
        (("p", "--header", "a=1", "--header", "a=2"), "twice"),
        (("p", "--key", "k", "--key-separator", ","), "either --key or"),
        (("p", "--key-separator", ","), "is for --stdin"),
        (("--stdin", "--key-separator", ""), "must not be empty"),
        (("--tombstone",), "give --key"),
        (("p", "--tombstone", "--key", "k"), "no message"),
    ],
)
def test_wrong_options_are_usage_errors(
    prices: Run, arguments: tuple[str, ...], reason: str
) -> None:
    code, _, err = run_command("publish", "prices", *arguments, given=b"no comma\n")

    assert code == 2
    assert reason in " ".join(err.replace("│", " ").split())
    assert rows(prices) == []


def test_a_message_is_published_only_if_nothing_is_behind_the_last(prices: Run) -> None:
    assert prices("publish", "prices", "a", "b", "--if-last", "empty")[0] == 0
    _, out, _ = prices("poll", "prices", "--json")
    first, second = (json.loads(line)["id"] for line in out.splitlines())

    code, _, err = prices("publish", "prices", "c", "--if-last", first)
    assert code == 4
    assert "topic_moved" in err or "after the id" in err
    assert second in err
    assert prices("publish", "prices", "--tombstone", "--key", "k", "--if-last", second)[0] == 0
    assert prices("publish", "prices", "--stdin", "--if-last", second)[0] == 2
    assert prices("publish", "prices", "x", "--if-last", "nothing")[0] == 2
