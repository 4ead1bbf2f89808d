"""Servers forward the caller's name; nobody else can forge it, or replay it."""

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tms.core.errors import NotAuthenticated
from tms.core.runtime.trusted_clock import TrustedClock
from tms.security.forwards import (
    HEADER_BYTES_MAX,
    Opened,
    Opener,
    Sealer,
    body_claim,
    body_fits,
    length_fits,
    server_identity,
)
from tms.security.principals import checked_identity
from tms.security.replays import SENDERS_MAX, SILENCE_MS, WINDOW
from tms.security.rules import Identity

NOW_MS = 1_700_000_000_000
TARGET = "https://leader:8443"
REQUEST = ("POST", "/v1/namespaces/a/topics/b%2F/publish", b"x=1&y=%20")
ANN = Identity("ann", frozenset(["g", "h,;=%"]))


class Keys:
    """Two keys; the second one seals."""

    def __init__(self) -> None:
        self.secrets = {"k1": b"1" * 32, "k2": b"2" * 32}

    def sealing(self) -> tuple[str, bytes]:
        return "k2", self.secrets["k2"]

    def valid(self, key_id: str) -> bytes | None:
        return self.secrets.get(key_id)


class Pair:
    """A server that seals, and one that opens seals."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.keys = Keys()
        self.sealer = Sealer(self.keys, "i:1", self.clock)
        self.opener = Opener(self.keys, TARGET, self.clock)

    def seal(self, identity: Identity | None = ANN, body: Any = b"", target: str = TARGET) -> bytes:
        return self.sealer.seal(identity, *REQUEST, target=target, body=body)

    def open(self, header: bytes) -> Opened:
        return self.opener.open(header, *REQUEST)

    def refusal(self, header: bytes, request: Any = REQUEST) -> str:
        with pytest.raises(NotAuthenticated) as caught:
            self.opener.open(header, *request)
        assert caught.value.problem.code == "credentials_invalid"
        return str(caught.value.detail["reason"])


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_who_asked_is_passed_on(pair: Pair) -> None:
    header = pair.seal(body=b"body")
    assert re.fullmatch(rb"v1;key=k2;from=i%3A1;boot=[0-9a-f]{16};n=1;t=1700000000000;\S+", header)
    assert pair.open(header) == Opened(ANN, "i:1", body_claim(b"body"))
    assert pair.open(pair.seal(None)).identity is None
    assert pair.open(pair.seal(Identity("anonymous"))).identity == Identity("anonymous")
    own = server_identity("i:1")
    assert own.principal == "server:i:1"
    assert pair.open(pair.seal(own)).identity == own


@given(
    st.text(min_size=1, max_size=255).filter(str.isprintable),
    st.frozensets(st.text(min_size=1).filter(str.isprintable)),
)
def test_any_name_comes_through(name: str, groups: frozenset[str]) -> None:
    pair = Pair()
    assert pair.open(pair.seal(Identity(name, groups))).identity == Identity(name, groups)


def test_the_longest_names_come_through(pair: Pair) -> None:
    identity = checked_identity("\U00010330" * 255, [f"{n:02}" + "グ" * 12 for n in range(100)])
    header = pair.seal(identity, body=10**17)
    assert len(header) <= HEADER_BYTES_MAX
    assert pair.open(header).identity == identity


FIELDS = ("key", "from", "boot", "n", "t", "who", "groups", "body", "sig")


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_can_be_changed(pair: Pair, field: str) -> None:
    header = pair.seal().decode()
    value = re.search(f";{field}=([^;]*)", header)
    assert value is not None
    last = "1" if value[1][-1:] != "1" else "2"
    for changed in (f"{value[1][:-1]}{last}", f"{value[1]}1", ""):
        forged = header.replace(f";{field}={value[1]}", f";{field}={changed}")
        assert pair.refusal(forged.encode())
    assert pair.refusal(header.replace(f";{field}={value[1]}", "").encode())
    assert pair.open(header.encode()), "what was refused has used nothing up"


@pytest.mark.parametrize(
    "request_",
    [
        ("PUT", *REQUEST[1:]),
        ("POST", "/v1", REQUEST[2]),
        (*REQUEST[:2], b"x=1&y=+"),
        ("POST", REQUEST[1] + "x", REQUEST[2][1:]),
        ("POSTx", *REQUEST[1:]),
    ],
)
def test_it_is_good_for_its_request_alone(pair: Pair, request_: Any) -> None:
    assert "another request" in pair.refusal(pair.seal(), request_)


def test_it_is_good_for_one_server_alone(pair: Pair) -> None:
    header = pair.seal()
    other = Opener(pair.keys, "https://other:8443", pair.clock)
    with pytest.raises(NotAuthenticated, match="another request or server"):
        other.open(header, *REQUEST)
    assert pair.open(header)


def test_it_is_good_once(pair: Pair) -> None:
    headers = [pair.seal() for _ in range(10)]
    for header in reversed(headers):
        assert pair.open(header)
    for header in headers:
        assert "sent before" in pair.refusal(header)


def test_one_that_very_many_overtook_is_refused(pair: Pair) -> None:
    first, second = pair.seal(), pair.seal()
    for _ in range(WINDOW - 1):
        last = pair.seal()
    assert pair.open(last)
    assert "overtook" in pair.refusal(first)
    assert pair.open(second)


def test_it_is_good_for_a_moment(pair: Pair) -> None:
    headers = [pair.seal() for _ in range(2)]
    pair.clock.advance(30_000)
    assert pair.open(headers[0])
    pair.clock.advance(1)
    assert "its time is not now" in pair.refusal(headers[1])


def test_clocks_may_differ_by_half_a_minute(pair: Pair) -> None:
    ahead = ManualClock(NOW_MS + 30_000)
    sealer = Sealer(pair.keys, "i:2", ahead)
    assert pair.open(sealer.seal(ANN, *REQUEST, target=TARGET, body=None))
    ahead.advance(1)
    assert "must agree" in pair.refusal(sealer.seal(ANN, *REQUEST, target=TARGET, body=None))


def test_a_server_that_starts_again_takes_none_from_before(pair: Pair) -> None:
    header = pair.seal()
    assert pair.open(header)
    pair.clock.advance(1)
    anew = Opener(pair.keys, TARGET, pair.clock)
    with pytest.raises(NotAuthenticated, match="before this server started"):
        anew.open(header, *REQUEST)
    assert anew.open(pair.seal(), *REQUEST)


@given(
    ahead_ms=st.integers(-40_000, 40_000), runs_ms=st.integers(0, 60_000), is_named=st.booleans()
)
def test_a_seal_for_a_process_is_taken_however_long_that_runs(
    *, ahead_ms: int, runs_ms: int, is_named: bool
) -> None:
    pair = Pair()
    sealer = Sealer(pair.keys, "i:2", ManualClock(NOW_MS + ahead_ms + runs_ms))
    pair.clock.advance(runs_ms)
    boot = pair.opener.boot if is_named else ""
    header = sealer.seal(ANN, *REQUEST, target=TARGET, body=b"", boot=boot)
    if abs(ahead_ms) > 30_000:
        assert "must agree" in pair.refusal(header)
    elif not is_named and ahead_ms < -runs_ms:
        assert "before this server started" in pair.refusal(header)
    else:
        assert pair.open(header).identity == ANN


@given(st.integers(-120_000, 120_000))
def test_a_seal_for_an_earlier_process_is_refused_by_name(ahead_ms: int) -> None:
    pair = Pair()
    before = pair.opener.boot
    pair.opener = Opener(pair.keys, TARGET, ManualClock(NOW_MS + ahead_ms))
    header = pair.sealer.seal(ANN, *REQUEST, target=TARGET, body=b"", boot=before)
    with pytest.raises(NotAuthenticated, match="another process of this server") as caught:
        pair.open(header)
    assert caught.value.detail["boot"] == pair.opener.boot != before


CLOCKS = st.lists(
    st.tuples(st.sampled_from(["pass", "step"]), st.integers(-100_000, 100_000)), max_size=8
)


@given(CLOCKS, st.integers(0, 3))
def test_none_is_taken_twice_whatever_the_clock_does(
    moves: list[tuple[str, int]], taken_at: int
) -> None:
    pair, machine = Pair(), ManualClock(NOW_MS)
    clock = TrustedClock(machine)
    pair.opener = Opener(pair.keys, TARGET, clock)
    headers = [
        pair.sealer.seal(ANN, *REQUEST, target=TARGET, body=b"", boot=boot)
        for boot in (pair.opener.boot, "")
    ]
    taken = dict.fromkeys(headers, 0)
    for at, (move, by_ms) in enumerate([("pass", 0), *moves]):
        if move == "step":
            machine.step(by_ms)
        else:
            machine.advance(abs(by_ms))
        if at < taken_at:
            continue
        for header in headers:
            with suppress(NotAuthenticated):
                pair.open(header)
                taken[header] += 1
    assert max(taken.values()) <= 1


def test_a_sender_that_starts_again_is_another(pair: Pair) -> None:
    assert pair.open(pair.seal())
    pair.sealer = Sealer(pair.keys, "i:1", pair.clock)
    assert pair.open(pair.seal())


def test_what_is_kept_of_senders_is_bounded(pair: Pair) -> None:
    first = pair.seal()
    assert pair.open(first)
    for _ in range(SENDERS_MAX - 1):
        pair.sealer = Sealer(pair.keys, "i", pair.clock)
        assert pair.open(pair.seal())
    pair.sealer = Sealer(pair.keys, "i", pair.clock)
    assert "more than 1000 servers" in pair.refusal(pair.seal())
    pair.clock.advance(SILENCE_MS + 1)
    assert pair.open(pair.seal())
    assert len(pair.opener._replays) == SENDERS_MAX
    assert "its time is not now" in pair.refusal(first)


def test_a_key_that_is_gone_opens_nothing(pair: Pair) -> None:
    header = pair.seal()
    secret = pair.keys.secrets.pop("k2")
    assert "key is unknown" in pair.refusal(header)
    pair.keys.secrets["k2"] = secret
    assert pair.open(header)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(header: bytes) -> None:
    pair = Pair()
    assert pair.refusal(header)
    assert pair.refusal(b"v1;" + header)
    assert pair.refusal(pair.seal() + header[:1] + b"\n")


def test_forms_that_could_be_read_twice_are_refused(pair: Pair) -> None:
    header = pair.seal().decode()
    for wrong in (
        header.replace("v1;", "v2;"),
        header.replace(";who", "; who"),
        header + ";who=root",
        header.replace(";who=ann", ";who=ann;who=root"),
        header.replace(";n=1;", f";n={'1' * 19};"),
        header.replace(";n=1;", ";n=\u0661;"),
        header + "=",
        "v1;" + "x" * HEADER_BYTES_MAX,
    ):
        assert "form" in pair.refusal(wrong.encode())


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_body_is_covered_as_far_as_it_was_known(body: bytes, other: bytes) -> None:
    assert body_fits(body_claim(body), other) == (body == other)
    assert body_fits(body_claim(len(body)), other) == (len(body) == len(other))
    assert body_fits(body_claim(None), other)
    assert length_fits(body_claim(len(body)), len(other)) == (len(body) == len(other))
    assert not length_fits(body_claim(len(body)), None)
    assert length_fits(body_claim(None), None)
    assert not length_fits(body_claim(None), len(other))
    assert length_fits(body_claim(body), len(other))
