r"""Filters as trees, and their text.

    or    := and ("or" and)*
    and   := not ("and" not)*
    not   := "not" not | "(" or ")" | test
    test  := field "exists" | field ("=" | "!=" | "^=") value
    field := key | header.NAME | header["NAME"]
    value := "TEXT" | 0xHEX

TEXT is UTF-8; in it, \" is a quote, \\ a backslash and \xNN a byte. `^=` tests for a prefix. A
missing field equals no value and has no prefix; `!=` is the negation of `=`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BARE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
"""A header's name that needs no quotes."""
_NOT_SHOWN: Final = re.compile(r'["\\]|[^ -~\u00a1-\ud7ff\uf900-\uffef]')


class Operator(StrEnum):
    """How a test compares a field."""

    EXISTS = "exists"
    EQUALS = "="
    DIFFERS = "!="
    BEGINS = "^="


@dataclass(frozen=True, slots=True)
class FieldTest:
    """The test of one field."""

    header: str | None
    """The name of the header; None for the key."""
    operator: Operator
    value: bytes = b""
    """The value to compare with; empty for `EXISTS`."""


@dataclass(frozen=True, slots=True)
class Not:
    """Matches what `part` does not match."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class Every:
    """Matches what all parts match; there are at least two."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Matches what at least one of the parts matches; there are at least two."""

    parts: tuple["Expression", ...]


Expression = FieldTest | Not | Every | Either


def text_of(expression: Expression) -> str:
    """Return the text of an expression, from which it can be parsed again."""
    match expression:
        case FieldTest(header, operator, value):
            field = "key" if header is None else f"header{_name(header)}"
            shown = "" if operator is Operator.EXISTS else f" {_value(value)}"
            return f"{field} {operator}{shown}"
        case Not(part):
            return f"not {_operand(part, Every, Either)}"
        case Every(parts):
            return " and ".join(_operand(part, Every, Either) for part in parts)
        case Either(parts):
            return " or ".join(_operand(part, Either) for part in parts)


def _operand(part: Expression, *in_parentheses: type[Expression]) -> str:
    text = text_of(part)
    return f"({text})" if isinstance(part, in_parentheses) else text


def _name(name: str) -> str:
    return f".{name}" if BARE_NAME.fullmatch(name) else f"[{_quoted(name)}]"


def _value(value: bytes) -> str:
    try:
        return _quoted(value.decode())
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _quoted(text: str) -> str:
    return f'"{_NOT_SHOWN.sub(_escaped, text)}"'


def _escaped(character: re.Match[str]) -> str:
    found = character[0]
    if found in '"\\':
        return f"\\{found}"
    return "".join(f"\\x{byte:02x}" for byte in found.encode())
