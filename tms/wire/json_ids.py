"""Ids of transactions and write pointers in JSON: their decimal digits as text, never a number.

They are above 2**53. JavaScript, jq and many other programs keep a JSON number in 53 bits: they
would read the id of one transaction and return that of another. So a number is refused.
"""

import re
from typing import Annotated

from tms.core.errors import InvalidRequest
from tms.core.limits import INT64_MAX
from tms.wire.json_fields import Json, described_by

_CHARS_SHOWN = 80
_DIGITS = re.compile("[1-9][0-9]{0,18}", re.ASCII)
"""Without leading zeros, so that each id has one form."""

POINTER: Json = {
    "type": "string",
    "pattern": f"^{_DIGITS.pattern}$",
    "description": "A transaction's write pointer: its start in milliseconds x 1000000.",
}
READ_POINTER: Json = {
    "type": "string",
    "pattern": f"^(0|{_DIGITS.pattern})$",
    "description": "Everything that was committed up to this one can be read.",
}

ToldPointer = Annotated[str, described_by(POINTER)]
"""In an answer. `str` makes it."""
GivenPointer = Annotated[str | int | float, described_by(POINTER)]
"""In a request. Numbers are decoded, so that `pointer_of` can refuse them with advice."""


def pointer_of(value: str | float, field: str, code: str = "invalid_write_pointer") -> int:
    """Return the write pointer in `field` of a body.

    Raises `InvalidRequest`: `id_as_number` for a number, `code` for text that is not one.
    """
    if not isinstance(value, str):
        raise InvalidRequest("id_as_number", field=field)
    if not _DIGITS.fullmatch(value) or int(value) > INT64_MAX:
        raise InvalidRequest(code, **{field: value[:_CHARS_SHOWN]})
    return int(value)
