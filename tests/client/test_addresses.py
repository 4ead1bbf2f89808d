"""Several servers behind one URL: who is asked, and who is asked next."""

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer, refusal
from tms.client.addresses import Addresses, parse_addresses
from tms.core.errors import NoLeader, OutcomeUnknown, QueueFull, ServerUnreachable

NOBODY = "http://127.0.0.1:1"


def test_addresses_share_the_first_ones_scheme() -> None:
    assert parse_addresses("https://a:1/x/,b:2,http://c") == [
        "https://a:1/x",
        "https://b:2",
        "http://c",
    ]
    for wrong in ("http://a,", "http://,http://b", "http://a:b"):
        with pytest.raises(ValueError, match=r"is not a URL|names no host"):
            parse_addresses(wrong)


def test_the_next_is_asked_where_nothing_was_done() -> None:
    addresses = Addresses(["a", "b", "c"])

    assert addresses.failed("a", NoLeader())
    assert addresses.in_order() == ["b", "c", "a"]
    assert not addresses.failed("b", QueueFull())
    assert addresses.in_order() == ["b", "c", "a"]
    assert not addresses.failed("b", OutcomeUnknown())
    assert addresses.in_order() == ["c", "a", "b"]
    assert addresses.failed("a", ServerUnreachable())  # it was not the first any more
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
def test_a_publish_goes_on_where_one_refuses_it_before_doing_anything(code: str) -> None:
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


def test_what_may_be_done_twice_goes_on_to_the_next() -> None:
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


def test_where_nobody_is_there_the_last_failure_is_told() -> None:
    with (
        tms.connect(f"{NOBODY},127.0.0.1:2", retry_for_s=0.0) as client,
        pytest.raises(tms.ServerUnreachable) as error,
    ):
        client.topics()

    assert error.value.detail["url"] == "http://127.0.0.1:2"
