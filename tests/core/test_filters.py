"""Filters choose the messages that a naive evaluator chooses, and refuse what they cannot read."""

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.message_ids import IDS
from tests.core.naive_filters import matches
from tms.core.errors import InvalidRequest, StoreCorrupt
from tms.core.values.filter_expressions import (
    Either,
    Every,
    Expression,
    FieldTest,
    Not,
    Operator,
    text_of,
)
from tms.core.values.filter_parser import CHARS_MAX, DEPTH_MAX, TESTS_MAX, parse
from tms.core.values.filters import Filter
from tms.core.values.message import Message, MessageBlock, MessageId, tombstone

NAMES = st.sampled_from(["a", "b", "type", "with space", 'quo"te', "é", "\n"])
VALUES = st.sampled_from([b"", b"x", b"xy", b"\xff", b'"\\', b"y" * 70])
TOKENS = re.findall(r"\S+", 'key header . a [ ] "x" " = != ^= 0x ( ) not and or exists \\')
COMPARED = st.sampled_from([Operator.EQUALS, Operator.DIFFERS, Operator.BEGINS])
TESTS = st.builds(FieldTest, st.none() | NAMES, COMPARED, VALUES) | st.builds(
    FieldTest, st.none() | NAMES, st.just(Operator.EXISTS), st.just(b"")
)


def _grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, parts) | st.builds(Every, several) | st.builds(Either, several)


EXPRESSIONS = st.recursive(TESTS, _grown, max_leaves=8)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=100),
    st.none() | VALUES,
    st.dictionaries(NAMES, VALUES, max_size=4),
    IDS.map(MessageId.encode),
    st.just(False),
) | st.builds(tombstone, VALUES, st.dictionaries(NAMES, VALUES, max_size=2)).map(
    lambda message: message._replace(id=bytes(20))
)


@given(EXPRESSIONS, st.lists(MESSAGES, max_size=12), st.integers(1, 12))
def test_the_messages_that_match_are_chosen_up_to_the_limit(
    expression: Expression, messages: list[Message], limit: int
) -> None:
    try:
        chosen = Filter(text_of(expression))
    except InvalidRequest as error:
        assert {"chars_max", "depth_max"} & error.detail.keys()
        return
    block = MessageBlock.of(messages)
    placed = replace(block, starts=[7 + at for at in (0, *block.payload_spans()[1])])

    found, last_id = chosen.matching(block, limit)

    assert chosen.matching(placed, limit) == (found, last_id)
    expected = [message for message in messages if matches(expression, message)]
    assert list(found) == expected[:limit]
    assert found.count == len(expected[:limit])
    assert last_id == (expected[limit - 1].id if len(expected) >= limit else None)
    assert all(chosen.matches_message(m.key, m.headers) for m in expected)


@given(EXPRESSIONS)
def test_the_text_of_a_filter_parses_to_it(expression: Expression) -> None:
    text = text_of(expression)
    if len(text) <= CHARS_MAX:
        try:
            assert parse(text) == expression
        except InvalidRequest as error:
            assert "depth_max" in error.detail


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ('key="a"', FieldTest(None, Operator.EQUALS, b"a")),
        ("\n\tkey  exists ", FieldTest(None, Operator.EXISTS)),
        ("key != 0x00fF", FieldTest(None, Operator.DIFFERS, b"\x00\xff")),
        (r'key ^= "\x00\"\\é"', FieldTest(None, Operator.BEGINS, b'\x00"\\\xc3\xa9')),
        ("header.content-type exists", FieldTest("content-type", Operator.EXISTS)),
        ("header.key exists", FieldTest("key", Operator.EXISTS)),
        ('header["a b"] = ""', FieldTest("a b", Operator.EQUALS, b"")),
        (
            'key exists or key = "a" and not header.x exists',
            Either(
                (
                    FieldTest(None, Operator.EXISTS),
                    Every(
                        (
                            FieldTest(None, Operator.EQUALS, b"a"),
                            Not(FieldTest("x", Operator.EXISTS)),
                        )
                    ),
                )
            ),
        ),
    ],
)
def test_a_filter_is_parsed(text: str, expression: Expression) -> None:
    assert parse(text) == expression


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", {"position": 1, "found": "the end", "expected": "key, header.NAME, not or ("}),
        ("key", {"position": 4, "found": "the end", "expected": "exists, =, != or ^="}),
        ("KEY exists", {"position": 1, "hint": "write key"}),
        ('key == "a"', {"position": 6, "hint": "write = with one sign"}),
        ("key = 'a'", {"position": 7, "hint": "write texts in double quotes"}),
        ('key = "a', {"position": 7, "hint": 'a text ends with ", and a quote in it is \\"'}),
        ("key = 0xabc", {"position": 7}),
        ("key = 0x", {"position": 7}),
        ("key = a", {"position": 7, "expected": 'a value: "TEXT" or 0xHEX'}),
        (r'key = "a\n"', {"position": 9, "expected": r"\", \\ or \xNN"}),
        (r'key = "\x4"', {"position": 8}),
        ('key = "a" AND key = "b"', {"position": 11, "hint": "write and"}),
        ('key = "a" key = "b"', {"position": 11, "expected": "and, or, or the end"}),
        ('(key = "a"', {"position": 11, "expected": "and, or, or )"}),
        ("header exists", {"position": 8}),
        ("header. exists", {"position": 8}),
        ("header[a] exists", {"position": 8}),
        (r'header["\xff"] exists', {"position": 8, "expected": "a name in UTF-8"}),
        ('"key" exists', {"position": 1}),
        ('key "exists"', {"position": 5}),
        ('payload = "a"', {"position": 1, "found": 'payload = "a"'}),
        ('key = "\ud800"', {"position": 7}),
        ("key exists" + " " * CHARS_MAX, {"chars_max": CHARS_MAX}),
        ("(" * (DEPTH_MAX + 1), {"depth_max": DEPTH_MAX}),
        ("not " * (DEPTH_MAX + 1), {"depth_max": DEPTH_MAX}),
        (" or ".join(["key exists"] * (TESTS_MAX + 1)), {"tests_max": TESTS_MAX}),
        ("\0", {"position": 1}),
    ],
)
def test_a_filter_that_cannot_be_read_says_where(text: str, detail: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text)

    assert caught.value.problem.code == "invalid_filter"
    assert caught.value.detail.items() >= detail.items()


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(TOKENS),
        max_size=30,
    ).map(" ".join)
)
def test_any_text_is_a_filter_or_is_refused_at_a_position(text: str) -> None:
    try:
        expression = parse(text)
    except InvalidRequest as error:
        assert error.problem.code == "invalid_filter"
        assert {"position", "tests_max", "chars_max"} & error.detail.keys()
    else:
        assert parse(text_of(expression)) == expression


@given(MESSAGES, st.data())
def test_a_damaged_message_is_reported_or_decided(message: Message, data: st.DataObject) -> None:
    block = MessageBlock.of([message])
    if not block.framed:
        return
    items = bytearray(block.items)
    items[data.draw(st.integers(21, len(items) - 1))] = data.draw(st.integers(0, 255))
    damaged = replace(block, items=bytes(items), starts=(0, len(items)))
    with suppress(StoreCorrupt):
        Filter('header.a = "x" or key exists').matching(damaged, 1)


def test_consecutive_matches_are_a_slice_and_none_is_copied_if_all_match() -> None:
    plain = MessageBlock.of([Message(b"one", id=bytes(20)), Message(b"two", id=bytes(20))])

    assert Filter("not key exists").matching(plain, 10) == (plain, None)
    assert Filter("not key exists").matching(plain, 10)[0] is plain
    assert Filter("key exists").matching(plain, 10)[0].count == 0
