"""Answers to errors in the registry's interface: `{"error_code": 40401, "message": "…"}`."""

import msgspec

from api.http.errors import ErrorAnswer, challenges
from tms.core.errors import NotPermitted, TmsError
from tms.registry.state.refusal import RegistryError
from tms.wire.registry_bodies import CONTENT_TYPE, RefusalBody

_TYPE = CONTENT_TYPE.encode()
_INTERNAL = 500
_UNAUTHORIZED = 401
_DENIED = 40301
"""The code of Confluent's registry for a denied request."""
_NAMES = {
    404: "Not Found",
    405: "Method Not Allowed",
    406: f"Not Acceptable: accept {CONTENT_TYPE} or application/json",
    415: f"Unsupported Media Type: send {CONTENT_TYPE} or application/json",
}
_encode = msgspec.json.Encoder().encode


def refusal_of(error: Exception) -> ErrorAnswer:
    """Return the answer to an error of the registry, or of HTTP."""
    if isinstance(error, RegistryError):
        return _answer(error.status, error.code, str(error))
    if not isinstance(error, TmsError):
        answer = _answer(_INTERNAL, _INTERNAL, "Internal Server Error")
        return answer._replace(is_our_fault=True)
    status = error.status
    headers = []
    if "allow" in error.detail:
        headers.append((b"allow", error.detail["allow"].encode()))
    if status == _UNAUTHORIZED:
        reason = error.detail.get("reason", error.problem.message)
        return _answer(status, status, f"Unauthorized: {reason}", challenges(error))
    if isinstance(error, NotPermitted) and "resource" in error.detail:
        action, resource = str(error.detail["action"]).capitalize(), error.detail["resource"]
        message = f"User is denied operation {action} on {resource}"
        return _answer(status, _DENIED, message.replace("on subject ", "on Subject: "))
    if status in _NAMES:
        return _answer(status, status, f"HTTP {status} {_NAMES[status]}", headers)
    message = "; ".join(f"{name}: {value}" for name, value in error.detail.items())
    message = f"{error.problem.message} ({message})" if message else error.problem.message
    answer = _answer(status, status, message, headers)
    return answer._replace(is_our_fault=status == _INTERNAL)


def _answer(
    status: int, code: int, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> ErrorAnswer:
    return ErrorAnswer(status, _encode(RefusalBody(code, message)), _TYPE, headers or [])
