"""Parses filters (`tms.core.values.filter_expressions`).

An error names the position, and what is expected there. A filter is bounded in characters, tests
and depth, so that neither parsing nor matching it takes long.
"""

import re
from typing import Final, NoReturn

from tms.core.errors import InvalidRequest
from tms.core.values.filter_expressions import (
    BARE_NAME,
    Either,
    Every,
    Expression,
    FieldTest,
    Not,
    Operator,
)

CHARS_MAX: Final = 1_000
TESTS_MAX: Final = 20
DEPTH_MAX: Final = 10
_SHOWN_CHARS: Final = 20
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<hex>0x[0-9A-Za-z]*) | (?P<text>"(?:[^"\\]|\\.)*")
        | (?P<sign>!=|\^=|[=().\[\]]) | (?P<end>\Z) | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r'\\(?:(["\\])|x([0-9A-Fa-f]{2})|(.?))', re.DOTALL)
_HEX: Final = re.compile(r"0x(?:[0-9A-Fa-f]{2})+")


def parse(text: str) -> Expression:
    """Return the expression that `text` says. Raises `InvalidRequest` (invalid_filter)."""
    if len(text) > CHARS_MAX:
        raise InvalidRequest("invalid_filter", chars=len(text), chars_max=CHARS_MAX)
    return _Parser(text).whole()


class _Parser:
    """Reads one text from left to right; `_next` is the next one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tests = self._depth = 0
        self._advance(0)

    def _advance(self, at: int) -> None:
        """Read the token at `at`, or after the spaces there."""
        token = _TOKEN.match(self._text, at)
        assert token is not None
        self._kind = token.lastgroup or ""
        self._next = token[self._kind]
        self._at, self._end = token.span(self._kind)

    def _take(self, *tokens: str) -> str | None:
        """Return and pass the next token if it is one of `tokens`, which are not quoted."""
        if self._kind == "text" or self._next not in tokens:
            return None
        token = self._next
        if token:
            self._advance(self._end)
        return token

    def _expect(self, token: str, what: str) -> None:
        if self._take(token) is None:
            self._refuse(what)

    def _refuse(self, expected: str) -> NoReturn:
        """Refuse the next token. Raises `InvalidRequest`."""
        found = self._text[self._at : self._at + _SHOWN_CHARS]
        detail = {"hint": hint} if (hint := self._hint()) else {}
        raise InvalidRequest(
            "invalid_filter",
            position=self._at + 1,
            found=found or "the end",
            expected=expected,
            **detail,
        )

    def _hint(self) -> str | None:
        if self._kind == "word" and self._next.lower() in {"and", "or", "not", "exists", "key"}:
            return f"write {self._next.lower()}" if not self._next.islower() else None
        if self._text[: self._end].endswith("=="):
            return "write = with one sign"
        if self._next == "'":
            return "write texts in double quotes"
        if self._next == '"':
            return 'a text ends with ", and a quote in it is \\"'
        return None

    def whole(self) -> Expression:
        expression = self._either()
        if self._kind != "end":
            self._refuse("and, or, or the end")
        return expression

    def _either(self) -> Expression:
        parts = [self._every()]
        while self._take("or"):
            parts.append(self._every())
        return Either(tuple(parts)) if parts[1:] else parts[0]

    def _every(self) -> Expression:
        parts = [self._not()]
        while self._take("and"):
            parts.append(self._not())
        return Every(tuple(parts)) if parts[1:] else parts[0]

    def _not(self) -> Expression:
        opened = self._take("not", "(")
        if opened is None:
            return self._test()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidRequest("invalid_filter", position=self._at + 1, depth_max=DEPTH_MAX)
        if opened == "(":
            expression = self._either()
            self._expect(")", "and, or, or )")
        else:
            expression = Not(self._not())
        self._depth -= 1
        return expression

    def _test(self) -> FieldTest:
        start = self._at + 1
        header = self._field()
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise InvalidRequest("invalid_filter", position=start, tests_max=TESTS_MAX)
        operator = self._take(*Operator)
        if operator is None:
            self._refuse("exists, =, != or ^=")
        value = b"" if operator == Operator.EXISTS else self._value()
        return FieldTest(header, Operator(operator), value)

    def _field(self) -> str | None:
        """Return the header's name; None for the key."""
        if self._take("key"):
            return None
        if self._take("header") is None:
            self._refuse("key, header.NAME, not or (")
        if self._kind != "text" and self._next == ".":
            name = BARE_NAME.match(self._text, self._end)
            if name is None:
                self._at = self._end
                self._refuse('a name of letters, digits, _, - or dots; write others header["NAME"]')
            self._advance(name.end())
            return name[0]
        self._expect("[", '.NAME or ["NAME"] after header')
        start = self._at
        raw = self._quoted('the name in double quotes, as in header["NAME"]')
        self._expect("]", "]")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self._at = start
            self._refuse("a name in UTF-8")

    def _value(self) -> bytes:
        if self._kind != "hex":
            return self._quoted('a value: "TEXT" or 0xHEX')
        if not _HEX.fullmatch(self._next):
            self._refuse("an even number of hexadecimal digits after 0x")
        value = bytes.fromhex(self._next[2:])
        self._advance(self._end)
        return value

    def _quoted(self, expected: str) -> bytes:
        """Return the bytes of the next token, a quoted text."""
        if self._kind != "text":
            self._refuse(expected)
        raw = b""
        at, last = self._at + 1, self._end - 1
        try:
            for escape in _ESCAPE.finditer(self._text, at, last):
                raw += self._text[at : escape.start()].encode()
                at, (character, digits, other) = escape.end(), escape.groups()
                if other is not None:
                    self._at = escape.start()
                    self._refuse('\\", \\\\ or \\xNN')
                raw += character.encode() if character else bytes.fromhex(digits)
            raw += self._text[at:last].encode()
        except UnicodeEncodeError:
            self._refuse("text without half a surrogate pair")
        self._advance(self._end)
        return raw
