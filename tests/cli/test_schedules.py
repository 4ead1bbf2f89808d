"""The effects and the output of the commands for scheduled messages."""

import json

from tests.cli.conftest import Run
from tests.waiting import wait_until


def test_messages_are_scheduled_listed_and_cancelled(run: Run) -> None:
    run("topic", "create", "orders")
    code, printed, told = run("publish", "orders", "one", "two", "--after", "2h", "--key", "k")
    assert (code, told) == (0, "Scheduled 2 messages.\n")
    first, second = printed.split()
    listed = run("topic", "scheduled", "list", "orders")[1].splitlines()
    assert listed[0].split() == ["ID", "DUE", "MESSAGE"]
    assert listed[1].split()[0] == first
    assert listed[1].endswith("key=k  one")
    cancelled = run("topic", "scheduled", "cancel", "orders", first)
    assert cancelled[:2] == (0, "Cancelled 1 message.\n")
    code, _, told = run("topic", "scheduled", "cancel", "orders", first)
    assert code != 0
    assert "was published or cancelled" in told
    [left] = json.loads(run("topic", "scheduled", "list", "orders", "--json")[1])
    assert (left["id"], left["payload"]) == (second, "two")


def test_a_message_is_published_at_a_time(run: Run) -> None:
    run("topic", "create", "orders")
    answer = json.loads(run("publish", "orders", "one", "--at", "2020-01-01", "--json")[1])
    assert answer["messages"] == len(answer["scheduled_ids"]) == 1
    wait_until(lambda: "one" in run("poll", "orders")[1])


def test_wrong_options_are_usage_errors(run: Run) -> None:
    run("topic", "create", "orders")
    for options in (
        ("--after", "1h", "--at", "2030-01-01"),
        ("--after", "-1"),
        ("--at", "soon"),
        ("--after", "1h", "--tx", "1"),
        ("--after", "1h", "--if-last", "empty"),
    ):
        assert run("publish", "orders", "one", *options)[0] == 2
