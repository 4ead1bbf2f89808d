"""JSON as the registry stores it: that of Java's Jackson, without spaces. Pure.

Keys keep their order; if two are equal the last value counts. Numbers are written as by Java's
BigDecimal, so `1.0` stays `1.0` and `1e2` becomes `1E+2`. Normalized text has sorted keys.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from tms.registry.questions.questions import InvalidSchema

Json = Any

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{escape}" for char, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL
)


def check_characters(text: str) -> None:
    """Raise `InvalidSchema` if a JSON text has half of a surrogate pair, which has no bytes."""
    for escape in _ESCAPE.finditer(text):
        if escape["half"]:
            raise InvalidSchema(f"{escape[0]} is half of a character")


def json_string(text: str) -> str:
    """Return a string as JSON."""
    return f'"{text.translate(_ESCAPES)}"'


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not valid JSON")


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("a number has a too large exponent") from None


def parse_json(text: str) -> Json:
    """Return the value of a text, with `Decimal`s for non-integers. Raises `ValueError`."""
    return json.loads(text, parse_float=_number, parse_constant=_no_constant)


def json_text(value: Json, *, normalized: bool = False) -> str:
    """Return the text of a value from `parse_json`."""
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(json_text(each, normalized=normalized) for each in value)}]"
    if isinstance(value, Mapping):
        items = sorted(value.items()) if normalized else value.items()
        pairs = (
            f"{json_string(key)}:{json_text(each, normalized=normalized)}" for key, each in items
        )
        return f"{{{','.join(pairs)}}}"
    return json.dumps(value)
