"""Only headers that trusted proxies add determine the client of a request."""

from functools import partial

import pytest

from api.http.door.proxies import UNKNOWN, TrustedProxies
from tests.work import lines_of
from tms.core.text.hosts import networks_of

PROXIES = TrustedProxies(networks_of("10.0.0.0/8, 127.0.0.1, fd00::/8"))
XFF, FORWARDED = b"x-forwarded-for", b"forwarded"


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("192.0.2.1", {XFF: b"10.0.0.1"}, "192.0.2.1"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {XFF: b"192.0.2.1"}, "192.0.2.1"),
        ("::ffff:10.0.0.1", {XFF: b"192.0.2.1"}, "192.0.2.1"),
        ("fd00::1%eth0", {XFF: b"192.0.2.1"}, "192.0.2.1"),
        ("10.0.0.1", {XFF: b"203.0.113.9, 192.0.2.1"}, "192.0.2.1"),
        ("10.0.0.1", {XFF: b"203.0.113.9,192.0.2.1 , 10.9.9.9"}, "192.0.2.1"),
        ("10.0.0.1", {XFF: b"10.0.0.7, 10.0.0.8"}, "10.0.0.7"),
        ("10.0.0.1", {XFF: b"192.0.2.1:4711"}, "192.0.2.1"),
        ("10.0.0.1", {XFF: b"[2001:db8::1]:4711"}, "2001:db8::1"),
        ("10.0.0.1", {XFF: b"2001:db8::1"}, "2001:db8::1"),
        ("10.0.0.1", {XFF: b"192.0.2.1, nonsense"}, UNKNOWN),
        ("10.0.0.1", {XFF: b""}, UNKNOWN),
        ("10.0.0.1", {FORWARDED: b"for=192.0.2.1;proto=http;by=10.0.0.1"}, "192.0.2.1"),
        ("10.0.0.1", {FORWARDED: b'For="[2001:db8::1]:80", for=10.0.0.2'}, "2001:db8::1"),
        ("10.0.0.1", {FORWARDED: b"by=10.0.0.1;for=192.0.2.1"}, "192.0.2.1"),
        ("10.0.0.1", {FORWARDED: b"for=_hidden"}, UNKNOWN),
        ("10.0.0.1", {FORWARDED: b"proto=http"}, UNKNOWN),
        ("10.0.0.1", {FORWARDED: b"for=192.0.2.1", XFF: b"192.0.2.1"}, "192.0.2.1"),
        ("10.0.0.1", {FORWARDED: b"for=127.0.0.1", XFF: b"192.0.2.1"}, UNKNOWN),
        ("", {XFF: b"192.0.2.1"}, ""),
    ],
)
def test_an_address(peer: str, headers: dict[bytes, bytes], address: str) -> None:
    assert PROXIES.address_of(peer, headers) == address


def test_without_proxies_no_header_counts() -> None:
    assert TrustedProxies().address_of("10.0.0.1", {XFF: b"192.0.2.1"}) == "10.0.0.1"


@pytest.mark.parametrize("unit", [b"10.0.0.1,", b"for=10.0.0.1;", b"for=10.0.0.1,", b'for="'])
def test_a_long_header_costs_no_more_than_its_last_hops(unit: bytes) -> None:
    for name in (XFF, FORWARDED):
        few, many = (
            lines_of(partial(PROXIES.address_of, "10.0.0.1", {name: unit * count}))
            for count in (100, 5_000)
        )
        assert many == few
