"""The patterns of JSON Schemas: those of the library that checks values, and Python's.

The library's run in linear time, but lack some of Java's, like (?i); Python has most of those.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

_KEPT = 1_000


def is_pattern(text: str) -> bool:
    """Whether a text is a valid pattern."""
    return _search(text) is not None


def finds(pattern: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text."""
    search = _search(pattern)
    return search is not None and search(text)


@lru_cache(_KEPT)
def _search(pattern: str) -> Callable[[str], bool] | None:
    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern}).is_valid
    except ValueError:
        pass
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError):
        return None
    return lambda text: compiled.search(text) is not None
