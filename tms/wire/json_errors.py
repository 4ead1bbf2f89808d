"""The body of every answer that is an error: JSON, for server and client.

In a detail, as everywhere in JSON, ids of transactions and write pointers are text; they are
recognized by their names. Any other number that JSON programs may round, such as a refused limit,
is text too.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tms.core.limits import JSON_INTEGER_MAX

_IDS = ("transaction_id", "write_pointer")
"""Suffixes of the names of ids."""
_ID = re.compile("-?[0-9]{1,19}", re.ASCII)


class ProblemBody(msgspec.Struct):
    """An error."""

    code: Annotated[
        str, msgspec.Meta(description="The stable code of the error; see each operation.")
    ]
    message: Annotated[str, msgspec.Meta(description="Always the same text for a code.")] = ""
    detail: Annotated[dict[str, Any], msgspec.Meta(description="Facts about this error.")] = {}
    request_id: Annotated[
        str | msgspec.UnsetType,
        msgspec.Meta(description="`X-Request-Id` of the request; the log and the audit have it."),
    ] = msgspec.UNSET


class ErrorBody(msgspec.Struct):
    """An error."""

    error: ProblemBody


class ProblemDetails(msgspec.Struct, kw_only=True):
    """An error as RFC 9457 has it, for callers whose Accept names its type."""

    type: Annotated[str, msgspec.Meta(description="`urn:tms:error:` and the code.")]
    title: Annotated[str, msgspec.Meta(description="Always the same text for a code.")]
    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    code: str
    context: Annotated[dict[str, Any], msgspec.Meta(description="Facts about this error.")]
    instance: Annotated[
        str | msgspec.UnsetType,
        msgspec.Meta(description="`urn:tms:request:` and the id of the request."),
    ] = msgspec.UNSET


def number_in_json(name: str, value: int) -> int | str:
    """Return a number of a detail as JSON."""
    is_safe = abs(value) <= JSON_INTEGER_MAX and not name.endswith(_IDS)
    return value if is_safe else str(value)


def detail_of(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return a detail with its ids as numbers again."""
    return {name: _id_of(value) if name.endswith(_IDS) else value for name, value in detail.items()}


def _id_of(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _ID.fullmatch(value) else value
