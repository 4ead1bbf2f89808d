"""An object with a duplicate name is detected anywhere, and nothing else is taken for one."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.wire.json_bodies import JSON
from tms.wire.json_values import check_names

TEXTS = st.text('ab"\\:{}[], \u00e9', max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
Pairs = tuple[tuple[str, Any], ...]
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=4).map(tuple)
    ),
    max_leaves=12,
)
"""Objects are tuples of names and values."""


def text_of(value: Any, *, is_ascii: bool) -> str:
    if isinstance(value, tuple):
        members = (
            f"{json.dumps(name, ensure_ascii=is_ascii)} : {text_of(inner, is_ascii=is_ascii)}"
            for name, inner in value
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(inner, is_ascii=is_ascii) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=is_ascii)


def has_twice(value: Any) -> bool:
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_twice(inner) for _, inner in value)
    return isinstance(value, list) and any(map(has_twice, value))


@given(VALUES, st.booleans())
@example((("a", 1), ("a", 1)), False)
def test_it_is_found_in_any_json(value: Any, is_ascii: bool) -> None:  # noqa: FBT001
    text = text_of(value, is_ascii=is_ascii).encode()
    if has_twice(value):
        with pytest.raises(msgspec.DecodeError, match="twice"):
            check_names(text)
    else:
        check_names(text)


@given(
    st.lists(st.lists(TEXTS | st.text("x", min_size=600, max_size=1_100), max_size=3), max_size=3),
    st.integers(0, 2),
    st.randoms(use_true_random=False),
)
def test_it_is_found_in_a_publish_of_texts(
    arrays: list[list[str]], pointers: int, random: Any
) -> None:
    """In these forms, long messages are not parsed a second time."""
    members: list[tuple[str, Any]] = [("messages", array) for array in arrays]
    members += [("transactionWritePointer", "5")] * pointers
    random.shuffle(members)
    body = text_of(tuple(members), is_ascii=False).encode()
    if len(arrays) == 1 and pointers < 2:
        assert list(JSON.decode_publish(body, 100).payloads) == [
            text.encode() for text in arrays[0]
        ]
    else:
        with pytest.raises(InvalidRequest) as caught:
            JSON.decode_publish(body, 100)
        assert caught.value.problem.code == "invalid_body"


def test_long_numbers_and_deep_nesting_cost_no_more_than_their_bytes() -> None:
    check_names(b'{"a": ' + b"9" * 100_000 + b', "b": 1}')
    with pytest.raises(RecursionError):
        check_names(b'{"a": {"b": ' * 100_000)
    check_names(b'not JSON: "a": 1, "a": 1')
