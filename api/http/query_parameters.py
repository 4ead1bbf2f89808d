"""The parameters in the query of a URL.

A name that the operation does not know is refused, because ignoring a misspelt parameter would give
an answer to another question. Operations outside of `/v1/` have no parameters and ignore any:
probes and scrapers add their own.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl

from api.http.protocol.media_types import kept
from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest
from tms.core.services.messaging import EMPTY, NO_ENTRIES
from tms.core.services.transactions import check_transaction_id
from tms.core.text.credentials import shortened
from tms.core.values.message import parse_id

PARAMETERS_MAX = 100
_CHARS_SHOWN = 80
_NUMBER = re.compile(r"[0-9.]+([eE][+-]?[0-9]+)?", re.ASCII)
_NONE: Mapping[str, str] = MappingProxyType({})


@kept
def _parse(query: bytes) -> Mapping[str, str]:
    """Return the values by name; a repeated one becomes "a, b", which is not valid for any.

    Raises `InvalidRequest` (malformed_request) for too many, and if a value is not UTF-8.
    """
    parsed = defaultdict[str, list[str]](list)
    for name, value in parameters_of(query):
        parsed[name].append(value)
    return MappingProxyType({name: ", ".join(values) for name, values in parsed.items()})


def parameters_of(query: bytes) -> list[tuple[str, str]]:
    """Return the names and values in their order. Raises `InvalidRequest` (malformed_request)."""
    try:
        return parse_qsl(
            query.decode(),
            keep_blank_values=True,
            max_num_fields=PARAMETERS_MAX,
            errors="strict",
        )
    except UnicodeDecodeError:
        reason = "the query is not UTF-8, percent-encoded"
    except ValueError:
        reason = f"a query may have at most {PARAMETERS_MAX} parameters"
    raise InvalidRequest("malformed_request", reason=reason)


def values_of(query: bytes) -> Mapping[str, str]:
    """Return the values of a query by name."""
    return _parse(query) if query else _NONE


def check_names(query: bytes, allowed: Collection[str]) -> None:
    """Raise `InvalidRequest` (unknown_query_parameter) if a name in `query` is not `known`."""
    for name in _parse(query):
        if name not in allowed:
            raise InvalidRequest(
                "unknown_query_parameter", name=shortened(name, _CHARS_SHOWN), known=list(allowed)
            )


def wait_of(values: Mapping[str, str], wait_s_max: float) -> float:
    """Return the seconds to wait, capped. Raises `InvalidRequest` (invalid_wait)."""
    text = values.get("wait")
    if text is None:
        return 0.0
    try:
        wait_s = float(text) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        wait_s = math.nan
    if math.isnan(wait_s):
        raise InvalidRequest("invalid_wait", wait=text)
    return min(wait_s, wait_s_max)


def limit_of(values: Mapping[str, str]) -> int | None:
    """Return the most items to return. Raises `InvalidRequest` (invalid_limit)."""
    text = values.get("limit")
    if text is None:
        return None
    limit = whole_number(text)
    if not limit:
        raise InvalidRequest("invalid_limit", limit=shortened(text, _CHARS_SHOWN))
    return limit


def time_of(values: Mapping[str, str], name: str) -> int | None:
    """Return a time in milliseconds since 1970. Raises `InvalidRequest` (invalid_query)."""
    return whole_number_of(values, name, "milliseconds since 1970")


def seconds_of(values: Mapping[str, str], name: str) -> float | None:
    """Return a number of seconds. Raises `InvalidRequest` (invalid_query)."""
    text = values.get(name)
    if text is None:
        return None
    try:
        return float(text if _NUMBER.fullmatch(text) else "")
    except ValueError:
        raise invalid(name, text, "number of seconds") from None


def whole_number_of(
    values: Mapping[str, str], name: str, expected: str = "whole number"
) -> int | None:
    """Return the number of a parameter. Raises `InvalidRequest` (invalid_query)."""
    text = values.get(name)
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        raise invalid(name, text, expected)
    return number


def invalid(name: str, value: str, expected: str) -> InvalidRequest:
    """Return the error for a parameter whose value is not as expected."""
    shown = shortened(value, _CHARS_SHOWN)
    return InvalidRequest("invalid_query", name=name, value=shown, expected=expected)


def id_of(values: Mapping[str, str], name: str) -> bytes:
    """Return the id of a parameter. Raises `InvalidRequest` (invalid_query, invalid_message_id)."""
    if name not in values:
        raise InvalidRequest("invalid_query", name=name, given=None, expected="message id")
    return parse_id(values[name])


def if_last_of(values: Mapping[str, str]) -> bytes | None:
    """Return the id in `if_last`, `NO_ENTRIES` for "empty". Raises `InvalidRequest`."""
    text = values.get("if_last")
    if text is None:
        return None
    return NO_ENTRIES if text == EMPTY else parse_id(text)


def choice_of(values: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """Return a parameter's choice. Raises `InvalidRequest` (invalid_query)."""
    choice = values.get(name, default)
    if choice not in choices:
        raise invalid(name, choice, " or ".join(choices))
    return choice


def flag_of(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the value of a parameter that is true or false. Raises `InvalidRequest`."""
    if name not in values:
        return default
    return choice_of(values, name, ("true", "false"), "") == "true"


def transaction_id_of(text: str) -> int:
    """Return the id in a path or query. Raises `InvalidRequest` (invalid_transaction_id)."""
    number = whole_number(text)
    if number is None:
        raise InvalidRequest("invalid_transaction_id", transaction_id=shortened(text, _CHARS_SHOWN))
    return check_transaction_id(number)


def polled_transaction_of(values: Mapping[str, str]) -> int | None:
    """Return the id of the transaction to read in. Raises `InvalidRequest`."""
    text = values.get("transaction_id")
    return None if text is None else transaction_id_of(text)


def with_codec(query: bytes) -> bool:
    """Whether the answer has a transaction's codec. Raises `InvalidRequest` (invalid_query)."""
    return flag_of(values_of(query), "codec", default=True)
