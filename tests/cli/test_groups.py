"""The effects and the output of the commands for groups."""

import json
import os
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from time import time

import pytest

import tms
from tests.cli.conftest import Run
from tests.waiting import WAIT_S_MAX, wait_until
from tms.cli import group_dead
from tms.core.values.message import published_ms

GROUPS = ("early", "late")


def test_a_group_from_its_creation_to_its_end(run: Run) -> None:
    run("topic", "create", "orders")
    created = run("group", "create", "orders", "billing", "--order", "key", "--lease", "20")
    assert created[1] == "Created group billing of topic orders.\n"
    again = run("group", "create", "orders", "billing", "--order", "key", "--lease", "30")
    kept = "exists already; its settings are not changed: lease_s 20."
    assert again[1] == f"Group billing of topic orders {kept}\n"
    run("publish", "orders", "one", "two", "three")

    taken = run("group", "take", "orders", "billing", "--limit", "2", "--ack")[1].splitlines()
    assert [line.split()[-1] for line in taken] == ["one", "two"]

    shown = json.loads(run("group", "show", "orders", "billing", "--json")[1])
    assert shown["settings"]["order"] == "key"
    assert shown["settings"]["lease_s"] == 20
    assert "billing" in run("group", "list", "orders")[1]
    assert "shared" in run("subscription", "list", "orders")[1]


def test_a_group_with_a_filter_delivers_what_matches(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--filter", 'key = "a"')
    again = run("group", "create", "orders", "billing")[1]
    assert again.endswith('its settings are not changed: filter key = "a".\n')
    for key in "ba":
        run("publish", "orders", key, "--key", key)
    taken = run("group", "take", "orders", "billing", "--limit", "1", "--ack")[1]
    assert taken.split()[-1] == "a"
    run("group", "set", "orders", "billing", "--filter", "")
    run("publish", "orders", "b")
    assert run("group", "take", "orders", "billing", "--limit", "1")[1].split()[-1] == "b"
    assert run("group", "set", "orders", "billing", "--filter", "key")[0] != 0


def test_a_group_may_begin_at_a_time(run: Run) -> None:
    run("topic", "create", "orders")
    run("publish", "orders", "one")
    run("group", "create", "orders", "early", "--after", "2020-01-01T00:00:00Z")
    run("group", "create", "orders", "late", "--after", "end")
    code, *_ = run("group", "create", "orders", "ahead", "--after", "2100-01-01T00:00:00Z")
    assert code != 0
    left = [json.loads(run("group", "show", "orders", name, "--json")[1]) for name in GROUPS]
    assert [each["state"]["unread"] for each in left] == [1, 0]


def test_what_is_not_acknowledged_is_given_back(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing")
    run("publish", "orders", "one")

    taken = [run("group", "take", "orders", "billing", "--limit", "1")[1] for _ in range(2)]
    assert taken[0] == taken[1]
    opened = json.loads(run("group", "open", "orders", "billing", "--json")[1])
    assert [(each["state"], each["attempts"]) for each in opened] == [("available", 0)]


def test_a_group_shows_which_messages_have_failed_and_why(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--retry", "3600", "--retry-max", "3600")
    run("publish", "orders", "one")
    with tms.connect(os.environ["TMS_URL"], os.environ["TMS_NAMESPACE"]) as client:
        next(client.topic("orders").group("billing").take()).nack(reason="no such customer")

    told = run("group", "show", "orders", "billing")[1]
    assert "in 1 attempt, last by" in told
    assert ": no such customer" in told
    [failed] = json.loads(run("group", "show", "orders", "billing", "--json")[1])["failed"]
    assert (failed["attempts"], failed["reason"]) == (1, "no such customer")


def test_a_group_is_set_paused_resumed_moved_and_deleted(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--after", "end")
    run("publish", "orders", "one")

    run("group", "set", "orders", "billing", "--retry", "7")
    run("group", "pause", "orders", "billing")
    shown = json.loads(run("group", "show", "orders", "billing", "--json")[1])
    assert (shown["settings"]["retry_s"], shown["settings"]["paused"]) == (7, True)
    run("group", "resume", "orders", "billing")
    told = run("group", "seek", "orders", "billing", "--to", "start")[1]
    assert told == "Moved group billing of topic orders.\n"
    assert "one" in run("group", "take", "orders", "billing", "--limit", "1", "--ack")[1]
    assert "HOLDS" in run("group", "members", "orders", "billing")[1]
    refused = run("subscription", "delete", "orders", "billing")
    assert refused[0] == 4
    assert "deleted as one" in refused[2]
    told = run("group", "delete", "orders", "billing")[1]
    assert told == "Deleted group billing of topic orders.\n"
    assert run("group", "show", "orders", "billing")[0] == 3


def test_dead_letters_are_listed_shown_redriven_and_dropped(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--attempts-max", "1")
    run("publish", "orders", "one")
    run("publish", "orders", "two")
    with tms.connect(os.environ["TMS_URL"], os.environ["TMS_NAMESPACE"]) as client:
        group = client.topic("orders").group("billing")
        for message in islice(group.take(), 2):
            message.nack(reason="no such customer")
        wait_until(lambda: len(group.dead_letters().letters) == 2)

    assert "no such customer" in run("group", "dead", "list", "orders", "billing")[1]
    listed = json.loads(run("group", "dead", "list", "orders", "billing", "--json")[1])
    first, second = (each["id"] for each in listed)
    shown = run("group", "dead", "show", "orders", "billing", second)[1]
    assert "two" in shown
    assert run("group", "dead", "show", "orders", "billing", "0" * 40)[0] == 2
    told = run("group", "dead", "redrive", "orders", "billing", first)[1]
    assert told == "Redrove 1 message of group billing.\n"
    told = run("group", "dead", "drop", "orders", "billing", second)[1]
    assert told == "Dropped 1 dead letter of group billing.\n"
    told = run("group", "dead", "redrive", "orders", "billing", "--all")[1]
    assert told == "Redrove 0 messages of group billing.\n"
    assert run("group", "dead", "redrive", "orders", "billing")[0] == 2

    opened = json.loads(run("group", "open", "orders", "billing", "--json")[1])
    told = run("group", "skip", "orders", "billing", opened[0]["id"])[1]
    assert told == "Skipped 1 message of group billing.\n"
    told = run("group", "release", "orders", "billing", "--member", "w-1")[1]
    assert told == "Took 0 messages of group billing back.\n"
    assert run("group", "release", "orders", "billing")[0] == 2


def is_over(ms: int) -> bool:
    return time() * 1_000 >= ms + 1


def test_all_are_redriven_though_the_oldest_have_expired(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_dead, "REDRIVEN_MAX", 1)
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--attempts-max", "1")
    with tms.connect(os.environ["TMS_URL"], os.environ["TMS_NAMESPACE"]) as client:
        topic, group = client.topic("orders"), client.topic("orders").group("billing")
        for payload in (b"one", b"two", b"three"):
            topic.publish(payload)
            [message] = group.take_once(wait_s=WAIT_S_MAX)
            message.reject()
            if payload == b"one":
                wait_until(partial(is_over, published_ms(message.id)))
                topic.trim(datetime.now(UTC))
        wait_until(lambda: len(group.dead_letters().letters) == 3)
    outcome = json.loads(run("group", "dead", "redrive", "orders", "billing", "--all", "--json")[1])
    assert outcome == {"redriven": 2, "expired": 1}


def test_redriving_all_says_that_a_group_is_full(run: Run) -> None:
    run("topic", "create", "orders")
    run("group", "create", "orders", "billing", "--attempts-max", "1")
    run("publish", "orders", "one", "two")
    with tms.connect(os.environ["TMS_URL"], os.environ["TMS_NAMESPACE"]) as client:
        group = client.topic("orders").group("billing")
        for message in group.take_once(2, wait_s=WAIT_S_MAX):
            message.reject()
        wait_until(lambda: len(group.dead_letters().letters) == 2)
        group.set(open_max=1)
    code, _, err = run("group", "dead", "redrive", "orders", "billing", "--all")
    assert code != 0
    assert err.startswith("Redrove only 1 message.\n")
    assert "open_max" in err


def test_a_group_that_is_missing_is_made_as_a_group(run: Run) -> None:
    run("topic", "create", "orders")
    for command in ("show", "take", "delete", "pause"):
        code, _, err = run("group", command, "orders", "billing")
        assert code == 3
        assert "has no group billing: make it with `tms group create orders billing`" in err
        assert "`tms group list orders`" in err
