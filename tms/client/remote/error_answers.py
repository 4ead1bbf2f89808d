"""Converts answers to errors, whether they are from TMS, a proxy or another server."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from tms.client.remote.retry import RETRY_AFTER_S
from tms.core.errors import (
    InternalError,
    NotAuthenticated,
    NotPermitted,
    NotTms,
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
from tms.outgoing.answer import Answer, BrokenAnswer
from tms.outgoing.compressed import whole_of
from tms.wire.json_errors import ErrorBody, detail_of
from tms.wire.media_types import ARROW_TYPE, AVRO_TYPE, JSON_TYPE
from tms.wire.registry_bodies import CONTENT_TYPE as REGISTRY_TYPE
from tms.wire.registry_bodies import RefusalBody

ANSWER_CHARS_SHOWN_MAX = 200
_OUR_TYPES = frozenset(
    {
        "",
        "application/octet-stream",
        ARROW_TYPE,
        AVRO_TYPE,
        JSON_TYPE,
        REGISTRY_TYPE,
        "text/css",  # the console's, which shows that the server has one
    }
)
_error_decoder = msgspec.json.Decoder(ErrorBody)
_refusal_decoder = msgspec.json.Decoder(RefusalBody)
_ERROR_BYTES_MAX = 1024 * 1024
_OK, _UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR, _UNAVAILABLE = 200, 401, 403, 500, 503
_NOT_REACHED = (500, 50001, 50002)
"""The error codes by which the registry says that its log failed."""

_CODE_OF_STATUS = {
    413: "request_too_large",
    502: "outcome_unknown",
    503: "outcome_unknown",
    504: "outcome_unknown",
}
"""The code for an answer without one of our error bodies, which a proxy may have sent. Any other
status below 500 means another server, and one above it `internal`."""


def is_ours(answer: Answer) -> bool:
    """Whether an answer is a success with one of TMS's media types."""
    return answer.status_code == _OK and type_of(answer.fields) in _OUR_TYPES


async def refuse(answer: Answer, url: str) -> NoReturn:
    """Raise the error that an answer reports, whether its length is known or not."""
    if answer.status_code == _OK:
        raise NotTms(url=url, reason=describe(answer.status_code, answer.fields))
    try:
        body = await whole_of(answer, _ERROR_BYTES_MAX)
    except BrokenAnswer:
        if not answer.is_unframed:
            raise
        body = b""
    error = error_from(answer.status_code, answer.fields, body)
    raise NotTms(url=url, **error.detail) if isinstance(error, NotTms) else error


def error_from(status: int, fields: Mapping[bytes, bytes], body: bytes) -> TmsError:
    """Return the error that an answer with a status other than 200 reports."""
    try:
        described = _error_decoder.decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        refused = _refusal_of(status, body)
        if refused is not None:
            return refused
        is_others = status < _SERVER_ERROR
        code = _CODE_OF_STATUS.get(status, "not_tms" if is_others else "internal")
        shown = shortened(body.decode(errors="replace").strip(), ANSWER_CHARS_SHOWN_MAX)
        detail: dict[str, Any] = {"status": status, "answer": shown}
        if code == "not_tms":
            detail["reason"] = describe(status, fields)
    else:
        code, detail = described.code, detail_of(described.detail)
        if code not in CATALOGUE:
            detail = {**detail, "message": described.message}
    if issubclass(class_of(code) if code in CATALOGUE else InternalError, Unavailable):
        retry_after = fields.get(b"retry-after", b"")
        if retry_after.isdigit():
            detail = {**detail, RETRY_AFTER_S: int(retry_after)}
    return error_of(code, detail)


def _refusal_of(status: int, body: bytes) -> TmsError | None:
    """Return the registry's error; None if the answer does not have its form."""
    try:
        refusal = _refusal_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if status == _UNAUTHORIZED:
        return NotAuthenticated("credentials_invalid", reason=refusal.message)
    if status == _FORBIDDEN:
        return NotPermitted("not_permitted", reason=refusal.message)
    if refusal.error_code in _NOT_REACHED:
        return OutcomeUnknown(reason=refusal.message)
    if refusal.error_code == _UNAVAILABLE:
        return SchemasUnavailable(reason=refusal.message)
    return SchemaRefused(error_code=refusal.error_code, reason=refusal.message)


def describe(status: int, fields: Mapping[bytes, bytes]) -> str:
    """Describe an answer's status and media type for people."""
    return f"it answers {status} {type_of(fields)}".rstrip()


def type_of(fields: Mapping[bytes, bytes]) -> str:
    """Return the media type of an answer; "" if it has none."""
    return _type_of(fields.get(b"content-type", b""))


@lru_cache(256)
def _type_of(value: bytes) -> str:
    return value.decode("latin-1").partition(";")[0].strip().lower()
