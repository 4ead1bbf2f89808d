"""The errors that answers stand for, be they from TMS or from a proxy or another server."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from tms.client.remote.retry import RETRY_AFTER_S
from tms.core.errors import (
    InternalError,
    NotAuthenticated,
    NotPermitted,
    OutcomeUnknown,
    SchemaRefused,
    SchemasUnavailable,
    TmsError,
    Unavailable,
    class_of,
    error_of,
)
from tms.core.errors.catalogue import CATALOGUE
from tms.core.text.credentials import shortened
from tms.wire.json_errors import ErrorBody, detail_of
from tms.wire.registry_bodies import RefusalBody

ANSWER_CHARS_SHOWN_MAX = 200
_error_decoder = msgspec.json.Decoder(ErrorBody)
_refusal_decoder = msgspec.json.Decoder(RefusalBody)
_NOT_REACHED = (500, 50001, 50002)
"""By what the registry says that its log failed."""

_CODE_OF_STATUS = {
    413: "request_too_large",
    502: "outcome_unknown",
    503: "outcome_unknown",
    504: "outcome_unknown",
}
"""The code for an answer without one of our error bodies, which a proxy may have sent. Any other
below 500 is from another server, and above it `internal`."""


def error_from(status: int, headers: Mapping[str, str], body: bytes) -> TmsError:
    """Return the error that an answer of a status other than 200 stands for."""
    try:
        described = _error_decoder.decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        refused = _refusal_of(status, body)
        if refused is not None:
            return refused
        is_others = status < httpx.codes.INTERNAL_SERVER_ERROR
        code = _CODE_OF_STATUS.get(status, "not_tms" if is_others else "internal")
        shown = shortened(body.decode(errors="replace").strip(), ANSWER_CHARS_SHOWN_MAX)
        detail: dict[str, Any] = {"status": status, "answer": shown}
        if code == "not_tms":
            detail["reason"] = told(status, headers)
    else:
        code, detail = described.code, detail_of(described.detail)
        if code not in CATALOGUE:
            detail = {**detail, "message": described.message}
    if issubclass(class_of(code) if code in CATALOGUE else InternalError, Unavailable):
        retry_after = headers.get("retry-after", "")
        if retry_after.isascii() and retry_after.isdigit():
            detail = {**detail, RETRY_AFTER_S: int(retry_after)}
    return error_of(code, detail)


def _refusal_of(status: int, body: bytes) -> TmsError | None:
    """Return the error that the registry answers; None if an answer is not of its form."""
    try:
        refusal = _refusal_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if status == httpx.codes.UNAUTHORIZED:
        return NotAuthenticated("credentials_invalid", reason=refusal.message)
    if status == httpx.codes.FORBIDDEN:
        return NotPermitted("not_permitted", reason=refusal.message)
    if refusal.error_code in _NOT_REACHED:
        return OutcomeUnknown(reason=refusal.message)
    if refusal.error_code == httpx.codes.SERVICE_UNAVAILABLE:
        return SchemasUnavailable(reason=refusal.message)
    return SchemaRefused(error_code=refusal.error_code, reason=refusal.message)


def told(status: int, headers: Mapping[str, str]) -> str:
    """Return how a server answers, for people."""
    return f"it answers {status} {type_of(headers)}".rstrip()


def type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of an answer, "" if it has none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()
