"""The cache of heads returns exactly what the parser returns."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.http.protocol import head_cache
from api.http.protocol.head import Head, parse_head
from api.http.protocol.head_cache import HeadCache
from tms.core.errors import InvalidRequest


def head(target: str = "/a", fields: str = "host: localhost", method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\n{fields}\r\n\r\n".encode()


def parse(cache: HeadCache, whole: bytes) -> Head:
    """Make the cache parse a head that is followed by something."""
    return cache.parse(whole + b"behind", len(whole))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record the heads that reach the parser."""
    parsed: list[bytes] = []

    def see(head: bytes) -> Head:
        parsed.append(head)
        return parse_head(head)

    monkeypatch.setattr(head_cache, "parse_head", see)
    return parsed


def test_fields_that_came_twice_are_parsed_no_more_whatever_the_target(
    parsed: list[bytes],
) -> None:
    cache = HeadCache()
    for number in range(10):
        assert parse(cache, head(f"/{number}")) == parse_head(head(f"/{number}"))

    assert len(parsed) == 2


def test_fields_that_come_once_push_nothing_out(parsed: list[bytes]) -> None:
    cache = HeadCache()
    for _ in range(2):
        parse(cache, head())
    for number in range(10_000):
        parse(cache, head(fields=f"host: localhost\r\nx-request-id: {number}"))
    parsed.clear()
    parse(cache, head())

    assert (parsed, len(cache)) == ([], 1)


def test_a_bounded_number_is_kept() -> None:
    cache = HeadCache()
    for number in range(3000):
        for _ in range(2):
            parse(cache, head(fields=f"host: localhost\r\nx: {number}"))

    assert len(cache) == 1024


def test_large_heads_are_not_kept(parsed: list[bytes]) -> None:
    cache = HeadCache()
    for _ in range(3):
        parse(cache, head(fields="host: localhost\r\nx: " + "v" * 2000))

    assert (len(parsed), len(cache)) == (3, 0)


odd = st.text(st.sampled_from("/aß %#?\x00\x7f:*"), max_size=6)
methods = st.sampled_from(("GET", "POST", "get", "FETCH", "", "CONNECT", "GET "))


@given(target=odd, method=methods)
def test_a_known_head_is_taken_or_refused_as_an_unknown_one(target: str, method: str) -> None:
    cache = HeadCache()
    for _ in range(2):
        parse(cache, head())

    def outcome(parse: Callable[[bytes], Head]) -> object:
        try:
            return parse(head(target, method=method))
        except InvalidRequest as error:
            return error.problem.code

    assert outcome(partial(parse, cache)) == outcome(parse_head)


said = st.text(st.sampled_from("aB7=/+ \t\x00\x7fé\r\n:"), max_size=8).map(
    lambda value: value.encode("latin-1")
)
named = st.sampled_from((b"Authorization", b"authorization", b"AUTHORIZATION", b"authorizatioN"))
gaps = st.sampled_from((b": ", b":", b":  ", b" : "))


@given(st.lists(st.tuples(named, gaps, said), max_size=2), st.sampled_from((0, 1)))
def test_what_callers_say_of_themselves_is_read_the_same_when_all_else_is_known(
    lines: list[tuple[bytes, bytes, bytes]], after: int
) -> None:
    cache = HeadCache()
    known = [b"Host: localhost", b"Authorization: Bearer abc", b"x: y"]

    def whole(fields: list[bytes]) -> bytes:
        return b"\r\n".join([b"GET /a HTTP/1.1", *fields, b"", b""])

    for _ in range(2):
        parse(cache, whole(known))
        parse(cache, whole([known[0], known[2]]))
    told = [b"".join(line) for line in lines]
    fields = [known[0], known[2]]
    asked = whole([*fields[: after + 1], *told, *fields[after + 1 :]])
    asked = asked[: asked.find(b"\r\n\r\n") + 4]

    def outcome(parse: Callable[[bytes], Head]) -> object:
        try:
            return parse(asked)
        except InvalidRequest as error:
            return error.problem.code

    assert outcome(partial(parse, cache)) == outcome(parse_head)
    assert outcome(partial(parse, cache)) == outcome(parse_head)


CREDENTIALS = ("Authorization: Bearer a", "X-CDAP-Runtime-Token: b")


@given(st.lists(st.sets(st.sampled_from(CREDENTIALS)), max_size=12))
@example([{*CREDENTIALS}, {*CREDENTIALS}, {CREDENTIALS[1]}])
def test_each_request_has_its_own_credentials(requests: list[set[str]]) -> None:
    cache = HeadCache()
    for fields in requests:
        whole = head(fields="\r\n".join(["host: localhost", *sorted(fields)]))
        assert parse(cache, whole) == parse_head(whole)


def test_callers_share_what_is_known_of_all_else(
    parsed: list[bytes],
) -> None:
    cache = HeadCache()
    for number in range(5):
        fields = f"host: localhost\r\nauthorization: Bearer {number}\r\nx: y"
        read = parse(cache, head(fields=fields))
        assert read[3] == b"Bearer %d" % number
        assert b"authorization" not in read[2].values
    assert len(parsed) == 2
