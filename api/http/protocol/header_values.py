"""The values of header fields, taken apart. Pure, and linear in their length.

Clients repeat themselves, so what short values say is kept; long ones are parsed each time.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, wraps
from typing import NamedTuple, TypeVar

T = TypeVar("T")
KEPT_BYTES_MAX = 512
"""The most bytes of a value whose result is kept."""
_VALUES_KEPT = 256
_PARTS = re.compile(r'(?:[^;"]++|"(?:[^"\\]|\\.)*+"?)++', re.DOTALL)
"""A part between semicolons. A semicolon within quotes does not end a part."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def kept(parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Return `parse`, which keeps what it returned for values that are short."""
    of_short = lru_cache(_VALUES_KEPT)(parse)

    @wraps(parse)
    def of(value: bytes) -> T:
        return of_short(value) if len(value) <= KEPT_BYTES_MAX else parse(value)

    return of


class MediaType(NamedTuple):
    """A media type, or a range of them, with its parameters."""

    name: str
    """In lower case: `application/json`."""
    parameters: Mapping[str, str]
    """By names in lower case; of several with one name, the first."""


def media_type_of(value: str) -> MediaType:
    """Return the media type that a Content-Type is, or an item of an Accept."""
    name, _, rest = value.partition(";")
    parameters: dict[str, str] = {}
    for part in _PARTS.findall(rest) if '"' in rest else rest.split(";"):
        key, is_given, given = part.partition("=")
        if is_given:
            parameters.setdefault(key.strip().lower(), _unquoted(given.strip()))
    return MediaType(name.strip().lower(), parameters)


def media_types_of(accept: bytes) -> Iterator[MediaType]:
    """Give the items of an Accept."""
    return (media_type_of(item) for item in accept.decode("latin-1").split(",") if item.strip())


def _unquoted(value: str) -> str:
    if 1 < len(value) <= KEPT_BYTES_MAX and value[0] == value[-1] == '"':
        return _ESCAPED.sub(r"\1", value[1:-1])
    return value
