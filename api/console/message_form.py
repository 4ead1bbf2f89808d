"""The form for publishing a message."""

from collections.abc import Mapping

from api.console.typed import pairs_of
from api.console.visit import Visit
from tms.core.errors import InvalidRequest, SchemasUnavailable
from tms.core.services.payload_values import ValueToEncode, no_registry
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import schemas_of

HEADERS = "headers"


async def body_of(visit: Visit, topic_id: TopicId) -> bytes:
    """Return the body of the message that a form describes.

    Raises `InvalidRequest` (invalid_body), `SchemasUnavailable`, `PayloadRefused`.
    """
    form = visit.form
    kind = form.get("kind", "text")
    payload: bytes | None = _lines(form.get("payload", "")).encode("utf-8", "replace")
    key = form.get("key", "").encode("utf-8", "replace") or None
    headers = _headers_of(form)
    if kind == "none":
        payload = None
    elif kind == "hex":
        payload = _hex(form.get("payload", ""))
    elif kind == "value":
        return await _encoded(visit, topic_id, ValueToEncode(payload, key, None, headers))
    [body] = bodies_of([encode_body(payload, key, headers)])
    return body


async def _encoded(visit: Visit, topic_id: TopicId, typed: ValueToEncode) -> bytes:
    """Return the body of a value, by the latest schema of its topic."""
    messaging = visit.services.messaging
    if messaging.values is None:
        raise SchemasUnavailable(reason=no_registry())
    topic = await messaging.topic(topic_id)
    schemas = schemas_of(topic_id, topic.properties)
    made = await messaging.values.encoded(schemas, {0: typed}, caller=visit.exchange.caller)
    [body] = bodies_of([made[0]])
    return body


def _lines(typed: str) -> str:
    """Return a text with LF as line ends: a form has CRLF."""
    return typed.replace("\r\n", "\n")


def _hex(typed: str) -> bytes:
    try:
        return bytes.fromhex(typed)
    except ValueError:
        raise InvalidRequest(
            "invalid_body", reason="the payload is not hexadecimal digits"
        ) from None


def _headers_of(form: Mapping[str, str]) -> dict[str, bytes]:
    try:
        pairs = dict(pairs_of(form.get(HEADERS, ""), ":"))
    except ValueError as error:
        reason = f"a header is NAME: VALUE, not {error}"
        raise InvalidRequest("invalid_body", reason=reason) from None
    return {name: value.encode("utf-8", "replace") for name, value in pairs.items()}
