"""Leaders that servers name: remembered, and asked only if that does no harm."""

import json

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer
from tms.client.remote.access import Access
from tms.client.remote.addresses import KEPT_MAX, NOT_ASKED_S, Addresses
from tms.client.remote.credentials import credentials_of
from tms.client.remote.named_leaders import NamedLeaders
from tms.client.remote.routes import RouteKey
from tms.core.errors import NoLeader, OutcomeUnknown, ServerUnreachable, Stopping

TOPIC, NAMESPACE = RouteKey("topic", "n/t"), RouteKey("namespace", "n")
BOTH = (TOPIC, NAMESPACE)
A, B, C = "http://a", "http://b", "http://c"


def forwarded(leader: str, body: bytes = b"[]") -> bytes:
    told = f"\r\nTMS-Forwarded-By: 7\r\nTMS-Leader: {leader}\r\n".encode()
    return answer(200, body).replace(b"\r\n", told, 1)


def test_each_thing_is_asked_of_its_own_leader() -> None:
    addresses = Addresses([A, B, C])
    addresses.forwarded(BOTH, A, B)
    addresses.forwarded((RouteKey("topic", "m/t"), RouteKey("namespace", "m")), B, C)
    assert addresses.in_order(BOTH)[0] == B
    assert addresses.in_order((RouteKey("topic", "n/new"), NAMESPACE))[0] == B
    assert addresses.in_order((RouteKey("namespace", "m"),))[0] == C
    addresses.forwarded(BOTH, B, C)  # the topic moved, most likely with its namespace
    assert addresses.in_order((NAMESPACE,))[0] == C
    addresses.same((RouteKey("transaction", "1"),), BOTH)
    assert addresses.in_order((RouteKey("transaction", "1"),))[0] == C


@pytest.mark.parametrize("error", [NoLeader(), OutcomeUnknown(), Stopping(), ServerUnreachable()])
def test_a_leader_that_fails_is_forgotten(error: tms.TmsError) -> None:
    addresses = Addresses([A, B])
    addresses.forwarded(BOTH, A, C)
    other = RouteKey("topic", "n/other")
    addresses.forwarded((other,), A, C)
    addresses.failed(C, error, BOTH)
    assert addresses.in_order(BOTH) == [A, B]
    is_gone = isinstance(error, Stopping | ServerUnreachable)
    assert (addresses.in_order((other,))[0] == A) == is_gone


def test_one_that_takes_no_connection_is_not_followed_until_later() -> None:
    now_s = 0.0
    addresses = Addresses([A, B], lambda: now_s)
    addresses.failed(C, ServerUnreachable(), BOTH)
    addresses.forwarded(BOTH, A, C)
    assert addresses.in_order(BOTH)[0] == A
    now_s = NOT_ASKED_S
    addresses.forwarded(BOTH, A, C)
    assert addresses.in_order(BOTH)[0] == C


def test_the_oldest_are_dropped() -> None:
    addresses = Addresses([A, B])
    for number in range(KEPT_MAX + 1):
        addresses.forwarded((RouteKey("topic", f"n/{number}"),), A, B)
        addresses.forwarded((RouteKey("topic", f"n/{number}"),), A, C)
    assert addresses.in_order((RouteKey("topic", "n/0"),))[0] != C
    assert addresses.in_order((RouteKey("topic", "n/1"),))[0] == C


@pytest.mark.parametrize(
    ("given", "named", "asked"),
    [
        ("http://a:80", "http://A/", "http://a:80"),
        ("https://u:p@a", "https://a:443", "https://u:p@a"),
        ("http://a", "http://evil", None),
        ("http://a", "none", None),
        ("http://a", "", None),
        ("http://a", "http://a,http://evil", None),
        ("http://a", "http://[", None),
        ("http://a", "http://a" + "a" * 60_000, None),
        ("http://a", "ftp://a", None),
    ],
)
def test_only_what_was_given_is_asked(given: str, named: str, asked: str | None) -> None:
    assert NamedLeaders([given], Access(), is_direct=False).url_of(named, given) == asked


def test_never_from_https_to_http() -> None:
    for is_direct in (False, True):
        leaders = NamedLeaders(["https://a", "http://b"], Access(), is_direct=is_direct)
        assert leaders.url_of("http://b", "https://a") is None
        assert leaders.url_of("http://c", "https://a") is None
        assert leaders.url_of("https://a", "http://b") == "https://a"


@pytest.mark.parametrize(
    "named",
    [
        *("http://127.0.0.1:1", "http://u:p@c", "https://c", "http://c?x", "garbage", "none"),
        *("http://localhost.:1", "http://[::1%25lo]:1", "http://127.1:1", "http://0x7f.1:1"),
        *("http://2130706433:1", "http://c\r\nx: y", "http://c:0", "http://c:1_0", "http://c%2f"),
    ],
)
def test_a_direct_client_goes_to_no_odd_place(named: str) -> None:
    leaders = NamedLeaders([A], Access(), is_direct=True)
    assert leaders.url_of(named, A) is None
    assert leaders.url_of("http://c:1", A) == "http://c:1"


def test_credentials_go_only_to_those_that_the_cluster_names() -> None:
    access = Access(credentials_of("token"), allow_plaintext=True)
    leaders = NamedLeaders([A], access, is_direct=True)
    assert (leaders.url_of(C, A), leaders.is_in_doubt) == (None, True)
    for odd in (b"", b"[]", b"\xff", b'{"instances": [{"address": 1}]}'):
        leaders.confirm(odd)
        assert leaders.url_of(C, A) is None
    leaders.confirm(json.dumps({"instances": [{"address": C}, {"address": "?"}]}).encode())
    assert (leaders.url_of(C, A), leaders.is_in_doubt) == (C, False)
    assert leaders.url_of("http://evil", A) is None
    strict = NamedLeaders([A], Access(credentials_of("token")), is_direct=True)
    strict.confirm(json.dumps({"instances": [{"address": C}]}).encode())
    assert strict.url_of(C, A) is None  # in plain text


def test_a_direct_client_with_a_token_asks_the_cluster_first() -> None:
    with FaultyServer(answer(200, b"[]"), answer(200, b"[]")) as leader:
        cluster = json.dumps({"instances": [{"address": leader.url}]}).encode()
        with (
            FaultyServer(forwarded(leader.url), answer(200, cluster)) as first,
            tms.connect(first.url, auth="token", direct=True) as client,
        ):
            for _ in range(3):
                assert client.topics() == []
            asked = [request.line.split()[1] for request in first.requests]
            assert asked == ["/v1/namespaces/default/topics", "/v1/cluster"]
            assert len(leader.requests) == 2


def test_a_stranger_that_is_named_gets_nothing() -> None:
    with (
        FaultyServer(answer(200, b"[]")) as stranger,
        FaultyServer(*[forwarded(stranger.url)] * 3, answer(403)) as first,
    ):
        with tms.connect(first.url, auth="", retry_for_s=0) as client:
            assert [client.topics(), client.topics()] == [[], []]
        with tms.connect(first.url, auth="token", direct=True, retry_for_s=0) as client:
            assert client.topics() == []
            with pytest.raises(tms.TmsError):  # asked about the cluster; no answers remain
                client.topics()
        assert stranger.requests == []
        assert len(first.requests) == 4


def test_one_that_is_gone_is_left_without_an_error() -> None:
    with (
        FaultyServer(forwarded("http://127.0.0.1:1"), forwarded("http://127.0.0.1:1")) as first,
        tms.connect(first.url, direct=True, retry_for_s=0, auth="") as client,
    ):
        assert [client.topics(), client.topics()] == [[], []]
