"""Values of header fields: their meaning, and that a long one costs no more than its length."""

import time
from collections.abc import Callable
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.protocol.media_types import (
    KEPT_BYTES_MAX,
    answer_format_of,
    arrow_decoder_of,
    check_json,
    check_type,
    format_of,
    kept,
    media_type_of,
    takes_gzip,
    wants_decoded,
)
from api.registry.requests import REQUEST_TYPES, best_type
from tms.core.errors import InvalidRequest
from tms.wire.json_bodies import JSON


@pytest.mark.parametrize(
    ("value", "name", "parameters"),
    [
        ("application/json", "application/json", {}),
        (" Application/JSON ; Charset = UTF-8", "application/json", {"charset": "UTF-8"}),
        ('a/b; c="d;e"; f=g', "a/b", {"c": "d;e", "f": "g"}),
        (r'a/b; c="d\"e;\\"; f=g', "a/b", {"c": r'd"e;\\'.replace("\\\\", "\\"), "f": "g"}),
        ('a/b; c="no end; f=g', "a/b", {"c": '"no end; f=g'}),
        ("a/b; c=1; c=2;;d; =", "a/b", {"c": "1", "": ""}),
        ("", "", {}),
    ],
)
def test_a_media_type_and_its_parameters(value: str, name: str, parameters: dict[str, str]) -> None:
    assert media_type_of(value) == (name, parameters)


_TOKEN = st.text("abcdefghij0123456789-", min_size=1, max_size=8)


@given(_TOKEN, st.dictionaries(_TOKEN, st.text('ab;=, "\\', min_size=1, max_size=8), max_size=4))
def test_what_the_library_writes_is_read(name: str, parameters: dict[str, str]) -> None:
    message = Message()
    message.add_header("content-type", f"a/{name}", **parameters)

    assert media_type_of(message["content-type"]) == (f"a/{name}", parameters)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "semicolons": lambda size: b"application/json" + b";" * size,
    "parameters": lambda size: b"application/json" + b";a=1" * (size // 4),
    "quoted semicolons": lambda size: b'application/json;a="' + b";" * size,
    "quotes": lambda size: b"application/json;" + b'"' * size,
    "escapes": lambda size: b'application/json;a="' + b'\\"' * (size // 2),
    "blanks": lambda size: b"application/json;a=" + b" " * size + b'"',
    "items": lambda size: b"application/json;q=1," * (size // 21),
    "commas": lambda size: b"," * size,
}
PARSERS: tuple[Callable[[bytes], object], ...] = (
    format_of,
    check_json,
    arrow_decoder_of,
    wants_decoded,
    takes_gzip,
    lambda value: answer_format_of(value, JSON),
    best_type,
    lambda value: check_type(value, REQUEST_TYPES),
)


def seconds(value: bytes) -> float:
    """Return the time that all parsers take for a value, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        started = time.thread_time()
        for parse in PARSERS:
            try:
                parse(value)
            except InvalidRequest as error:
                assert len(str(error)) < 1000
        best = min(best, time.thread_time() - started)
    return best


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_cost_of_a_value_is_linear_in_its_length(kind: str) -> None:
    hostile = HOSTILE[kind]

    # The value is 16 times as long: linear work grows 16 times, quadratic work 256 times.
    assert seconds(hostile(64_000)) <= 64 * max(seconds(hostile(4_000)), 0.000_5)


def test_only_short_values_are_kept() -> None:
    parsed: list[bytes] = []
    parse = kept(parsed.append)
    for value in (b"a", b"a", b"b" * KEPT_BYTES_MAX * 2, b"b" * KEPT_BYTES_MAX * 2):
        parse(value)

    assert [len(each) for each in parsed] == [1, KEPT_BYTES_MAX * 2, KEPT_BYTES_MAX * 2]


def test_formats_by_their_parameters() -> None:
    assert format_of(b"application/json; charset=UTF-8") is JSON
    for other in (b"charset=latin-1", b'encoding="base64"'):
        with pytest.raises(InvalidRequest):
            format_of(b"application/json; " + other)
    assert not takes_gzip(b"gzip; q=0.000, deflate")
    assert takes_gzip(b"br, x-gzip;q=0.1")
