"""Refuses JSON in which an object has a name twice: readers disagree which of the values counts.

msgspec keeps the last one and does not tell. So a body is parsed once more, for its names alone.
"""

import json
from collections import Counter
from typing import Any

import msgspec

_NAME_CHARS_SHOWN = 100


class _Twice(Exception):
    """Raised with the name that an object has twice."""


def _check_object(members: list[tuple[str, None]]) -> None:
    if len(members) > 1 and len(dict(members)) < len(members):
        counts = Counter(name for name, _ in members)
        raise _Twice(next(name for name, count in counts.items() if count > 1))


def _nothing(_: str) -> None:
    """Leave numbers unread: they may be long."""


_names = json.JSONDecoder(
    object_pairs_hook=_check_object,
    parse_int=_nothing,
    parse_float=_nothing,
    parse_constant=_nothing,
    strict=False,
)


def check_names(text: bytes) -> None:
    """Raise `msgspec.DecodeError` if an object has a name twice.

    A text that is not JSON is passed over: the decoder refuses it. Raises `RecursionError` if
    objects are nested deeper than can be read.
    """
    if text.count(b":") <= 1:
        return
    try:
        _names.decode(text.decode(errors="surrogatepass"))
    except _Twice as twice:
        name = str(twice)[:_NAME_CHARS_SHOWN]
        raise msgspec.DecodeError(f"Object has the name {name!r} twice") from None
    except ValueError:
        return


def strictly_decoded(decoder: Any, body: bytes) -> Any:
    """Return what a decoder of msgspec makes of a body, in which no object has a name twice.

    Raises as the decoder, and as `check_names`.
    """
    value = decoder.decode(body)
    check_names(body)
    return value
