"""Several servers behind one URL: which one is asked first, and which one next."""

import re

import pytest

import tms
from tests.cli.conftest import run_command
from tests.client.faulty_server import FaultyServer, answer, refusal
from tms.client.remote.addresses import Addresses, parse_addresses
from tms.core.errors import NoLeader, OutcomeUnknown, QueueFull, ServerUnreachable

NOBODY = "http://127.0.0.1:1"


def test_addresses_share_the_first_ones_scheme() -> None:
    assert parse_addresses("https://a:1/x/,b:2,http://c") == [
        "https://a:1/x",
        "https://b:2",
        "http://c",
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("HTTP://a:1", "http://a:1"),
        ("Https://A:1//", "https://A:1"),
        (" http://a:1\n", "http://a:1"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("http://a:1/behind/a/gateway", "http://a:1/behind/a/gateway"),
        ("https://user:p%3F@a:1", "https://user:p%3F@a:1"),
    ],
)
def test_capitals_spaces_and_a_slash_at_the_end_do_not_matter(given: str, meant: str) -> None:
    assert parse_addresses(given) == [meant]
    assert parse_addresses(f"{given}, b:2") == [meant, f"{meant.partition('://')[0]}://b:2"]
    with tms.connect(given):
        pass


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("http://a,", "names no host"),
        ("http://,http://b", "names no host"),
        ("http://a,,b", "names no host"),
        ("http://:11015", "names no host"),
        ("http:///a", "names no host"),
        ("http://a:b", "is not a URL"),
        ("http://[::1", "is not a URL"),
        ("http://user:p/w@a:1", "write / and ? in a password"),
        ("http://a:1?x=1", "more than an address"),
        ("http://a:1/?x=1", "more than an address"),
        ("http://a:1/#x", "more than an address"),
        ("http://a:1,b:1?x=1", "more than an address"),
        ("http://a:0", "a port that is not from 1"),
        ("http://a:65536", "a port that is not from 1"),
        ("http://a:-1", "a port that is not from 1"),
        ("http://a b:1", "characters that hosts do not have"),
        ("http://a;b", "characters that hosts do not have"),
        ("http://a:1,ftp://b", "is not a URL of a server"),
        ("http://a:1,leveldb:x", "is not a URL"),
        ("http:/a:1", "cannot connect to"),
        ("http//a:1", "cannot connect to"),
        ("a:1", "cannot connect to"),
        (",http://a:1", "cannot connect to"),
        ("LEVELDB:x", "cannot connect to"),
    ],
)
def test_another_url_is_refused_before_anything_is_sent(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        tms.connect(given)
    code, _, err = run_command("--url", given, "topic", "list")
    assert code == 2
    assert "--url" in err


def test_the_next_is_asked_if_nothing_was_done() -> None:
    addresses = Addresses(["a", "b", "c"])

    assert addresses.failed("a", NoLeader())
    assert addresses.in_order() == ["b", "c", "a"]
    assert not addresses.failed("b", QueueFull())
    assert addresses.in_order() == ["b", "c", "a"]
    assert not addresses.failed("b", OutcomeUnknown())
    assert addresses.in_order() == ["c", "a", "b"]
    assert addresses.failed("a", ServerUnreachable())  # it was no longer the first
    assert addresses.in_order() == ["c", "a", "b"]


def test_a_publish_goes_to_the_one_that_is_there() -> None:
    with (
        FaultyServer(answer(200), answer(200)) as server,
        tms.connect(f"{NOBODY},{server.url}", retry_for_s=0.0) as client,
    ):
        client.topic("t").publish(b"one")
        client.topic("t").publish(b"two")

        assert len(server.requests) == 2


@pytest.mark.parametrize("code", ["no_leader", "stopping"])
def test_a_publish_continues_where_one_refuses_it_before_doing_anything(code: str) -> None:
    with (
        FaultyServer(refusal(503, code)) as first,
        FaultyServer(answer(200)) as second,
        tms.connect(f"{first.url},{second.url}", retry_for_s=0.0) as client,
    ):
        client.topic("t").publish(b"x")

        assert (len(first.requests), len(second.requests)) == (1, 1)


def test_a_publish_whose_outcome_is_not_known_is_left_to_the_caller() -> None:
    with (
        FaultyServer(b"") as first,
        FaultyServer(answer(200)) as second,
        tms.connect(f"{first.url},{second.url}", retry_for_s=0.0) as client,
    ):
        with pytest.raises(tms.OutcomeUnknown):
            client.topic("t").publish(b"x")
        assert len(second.requests) == 0

        client.topic("t").publish(b"another")
        assert len(second.requests) == 1


def test_what_may_be_done_twice_continues_to_the_next() -> None:
    with (
        FaultyServer(b"") as first,
        FaultyServer(answer(200, b"[]")) as second,
        tms.connect(f"{first.url},{second.url}", retry_for_s=10.0) as client,
    ):
        assert client.topics() == []
        assert (len(first.requests), len(second.requests)) == (1, 1)


def test_one_that_only_forwards_makes_way_to_the_next() -> None:
    forwarded = answer(200, b"[]").replace(b"\r\n", b"\r\nTMS-Forwarded-By: 7\r\n", 1)
    with (
        FaultyServer(forwarded) as first,
        FaultyServer(answer(200, b"[]"), answer(200, b"[]")) as leader,
        tms.connect(f"{first.url},{leader.url}") as client,
    ):
        for _ in range(3):
            assert client.topics() == []

        assert (len(first.requests), len(leader.requests)) == (1, 2)


def test_if_nobody_is_there_the_last_failure_is_reported() -> None:
    with (
        tms.connect(f"{NOBODY},127.0.0.1:2", retry_for_s=0.0) as client,
        pytest.raises(tms.ServerUnreachable) as error,
    ):
        client.topics()

    assert error.value.detail["url"] == "http://127.0.0.1:2"
