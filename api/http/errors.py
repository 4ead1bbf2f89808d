"""The one place where an error becomes an answer.

    {"error": {"code": "topic_not_found", "message": "The topic does not exist.", "detail": {…}}}

Always JSON, whatever the format of the request. An exception other than `TmsError` is our fault:
the answer is `internal`, and reveals nothing about it.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from tms.core.errors import InternalError, NoLeader, Stopping, TmsError
from tms.core.services.cluster import LEADER
from tms.core.text.credentials import shortened
from tms.security.forwards import BOOT_HEADER
from tms.wire.json_errors import ErrorBody, ProblemBody, ProblemDetails, number_in_json
from tms.wire.media_types import PROBLEM_TYPE

RETRY_AFTER_S = 1
CHALLENGE = (b"www-authenticate", b'Bearer realm="tms"')
"""A header of each 401, as RFC 9110 requires."""

NO_LEADER = (LEADER.encode(), b"none")
"""A header: this server does not lead, or is stopping. Nothing was done."""
_BOOT = BOOT_HEADER.lower().encode()
_JSON_TYPE = b"application/json"
_TEXT_CHARS_MAX = 1000
_UNAUTHORIZED = 401
_TOO_MANY = 429
_INTERNAL = 500
_UNAVAILABLE = 503


class ErrorAnswer(NamedTuple):
    """The answer to an error."""

    status: int
    body: bytes
    content_type: bytes
    headers: Iterable[tuple[bytes, bytes]]
    is_our_fault: bool = False
    """Whether the server's operator must know."""


ErrorForm = Callable[[Exception], ErrorAnswer]


def answer_of(
    error: Exception, request_id: str | None = None, *, is_problem: bool = False
) -> ErrorAnswer:
    """Return the answer to `error` in TMS's own interface, from the catalogue.

    With `is_problem` the body is a problem of RFC 9457.
    """
    problem = error if isinstance(error, TmsError) else InternalError()
    headers = []
    if problem.status == _UNAVAILABLE:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if problem.status == _TOO_MANY:
        seconds = problem.detail.get("retry_after_s", RETRY_AFTER_S)
        headers.append((b"retry-after", b"%d" % seconds))
        headers.append((b"ratelimit", b'"tms";r=0;t=%d' % seconds))
    if "allow" in problem.detail:
        headers.append((b"allow", problem.detail["allow"].encode()))
    if problem.status == _UNAUTHORIZED:
        headers += challenges(problem)
    if isinstance(problem, NoLeader | Stopping):
        headers.append(NO_LEADER)
    is_our_fault = problem.status == _INTERNAL
    body = problem_body(problem, request_id) if is_problem else error_body(problem, request_id)
    content_type = PROBLEM_TYPE.encode() if is_problem else _JSON_TYPE
    return ErrorAnswer(problem.status, body, content_type, headers, is_our_fault)


def challenges(error: TmsError) -> list[tuple[bytes, bytes]]:
    """Return the headers of a 401; if a server's seal was refused, also whom to seal for."""
    boot = error.detail.get("boot")
    return [CHALLENGE] if boot is None else [CHALLENGE, (_BOOT, boot.encode())]


def problem_body(error: TmsError, request_id: str | None = None) -> bytes:
    """Return the body for `error` as RFC 9457 has it; `context` is the detail of `error_body`."""
    problem = error.problem
    body = ProblemDetails(
        type=f"urn:tms:error:{problem.code}",
        title=problem.message,
        status=problem.status,
        code=problem.code,
        context={name: _json_of(value, name) for name, value in error.detail.items()},
        instance=msgspec.UNSET if request_id is None else f"urn:tms:request:{request_id}",
    )
    return json.dumps(msgspec.to_builtins(body)).encode()


def error_body(error: TmsError, request_id: str | None = None) -> bytes:
    """Return the JSON body for `error`, with the id of its request if it is known."""
    problem = error.problem
    detail = {name: _json_of(value, name) for name, value in error.detail.items()}
    request = msgspec.UNSET if request_id is None else request_id
    body = ErrorBody(ProblemBody(problem.code, problem.message, detail, request))
    # msgspec cannot encode numbers over 64 bits or text that is not UTF-8; json can.
    return json.dumps(msgspec.to_builtins(body)).encode()


def _json_of(value: Any, name: str) -> Any:
    """Return the value of a name in a form for JSON: bytes as base64, foreign types as text."""
    if isinstance(value, dict):
        return {str(inner): _json_of(each, str(inner)) for inner, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_of(each, name) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return number_in_json(name, value)
    is_finite = isinstance(value, float) and math.isfinite(value)
    if value is None or isinstance(value, bool) or is_finite:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()[:_TEXT_CHARS_MAX]
    return shortened(str(value), _TEXT_CHARS_MAX)
