"""Publish bodies that are messages by themselves, from tools that know nothing of TMS.

The key and the headers of the messages are in the query and in fields of the request,
percent-encoded unless they are ASCII.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from urllib.parse import unquote, unquote_to_bytes

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.protocol.head import MESSAGE_HEADER
from api.http.query_parameters import flag_of, if_last_of, invalid, parameters_of, values_of
from api.http.request_body import read_body
from api.openapi.raw_schemas import PUBLISHED_IDS_CONTENT, RAW_CONTENT, RAW_QUERY
from api.resources.carried import take_publish
from api.resources.messages import (
    MESSAGE_ERRORS,
    SCHEMA_ERRORS,
    decoded,
)
from api.resources.paths import TOPIC
from api.resources.traces import TRACEPARENT, traced
from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.security.resources import Action
from tms.wire.json_bodies import JSON
from tms.wire.raw_bodies import RawRequest, bodies_in

_EVENT_ATTRIBUTE = b"ce-"
_CHARS_SHOWN = 80


async def publish_raw(exchange: Exchange) -> None:
    """Publish a body; answer with the ids of its messages."""
    body = await read_body(exchange)
    if b"idempotency-key" in exchange.headers:
        raise InvalidRequest("idempotency_key_refused")
    request = _request_of(exchange)
    if_last = if_last_of(values_of(exchange.query))
    messages_max = exchange.context.limits.request_messages_max
    bodies: Sequence[bytes] = await decoded(body, bodies_in(request, body, messages_max))
    if TRACEPARENT in exchange.headers:
        bodies = await traced(exchange, exchange.topic_id, bodies)
    take_publish(exchange, bodies)
    published = await exchange.context.services.messaging.publish(
        exchange.topic_id, bodies, if_last=if_last, caller=exchange.caller
    )
    await exchange.answer(OK, JSON.encode_published(published), JSON_TYPE)


def _request_of(exchange: Exchange) -> RawRequest:
    """Return what the query and the fields say. Raises `InvalidRequest`."""
    content_type = exchange.headers.get(b"content-type")
    lines = exchange.fields.lines
    values = values_of(exchange.query)
    attributes = _texts(lines, _EVENT_ATTRIBUTE)
    if not (content_type or attributes):  # an event need not say what its data is
        raise InvalidRequest("unsupported_content_type", content_type=None, expected="any")
    return RawRequest(
        (content_type or b"").decode("latin-1"),
        _key_of(exchange),
        {name: value.encode() for name, value in _texts(lines, MESSAGE_HEADER).items()},
        attributes,
        is_split=flag_of(values, "split", default=False),
    )


def _key_of(exchange: Exchange) -> bytes | None:
    keys = [value.encode() for name, value in parameters_of(exchange.query) if name == "key"]
    of_field = exchange.headers.get(b"tms-key")
    if of_field is not None:
        keys.append(unquote_to_bytes(of_field))
    if len(keys) > 1:
        raise invalid("key", "several", "one key, in the query or in TMS-Key")
    return keys[0] if keys else None


def _texts(lines: Iterable[tuple[bytes, bytes]], start: bytes) -> dict[str, str]:
    """Return the values of the fields whose names begin with `start`, by the rest of the names.

    Raises `InvalidRequest` (invalid_message_header).
    """
    texts: dict[str, str] = {}
    for field, value in lines:
        if not field.startswith(start):
            continue
        try:
            name = unquote(field[len(start) :].decode(), errors="strict")
            text = unquote(value.decode(), errors="strict")
        except UnicodeDecodeError:
            raise _invalid(field, "it is not UTF-8, percent-encoded") from None
        if not name or name in texts:
            raise _invalid(field, "it occurs twice" if name else "it has no name")
        texts[name] = text
    return texts


def _invalid(field: bytes, reason: str) -> InvalidRequest:
    shown = shortened(field.decode("latin-1"), _CHARS_SHOWN)
    return InvalidRequest("invalid_message_header", name=shown, reason=reason)


_row = partial(Operation, action=Action.PUBLISH, method="POST", is_taskless=True, tag="Messages")
OPERATIONS = (
    _row(
        name="publishRaw",
        path=f"{TOPIC}/messages",
        handler=publish_raw,
        summary="Publish the body as a message",
        description=(
            "For webhooks, log shippers and other programs that cannot build the body of a "
            "publish. The body is the payload of one message, and its Content-Type the message's "
            "header `content-type`, except `application/octet-stream`. There are three exceptions. "
            "Each line of `application/x-ndjson` is a message, each item of a JSON array with "
            "`split=true`, and each event of a CloudEvents batch. Events are accepted in "
            "CloudEvents' binary and structured modes; an attribute `NAME` becomes the header "
            "`ce_NAME`, and `partitionkey` the key. `TMS-Header-NAME: VALUE` adds the header "
            "`NAME` to each message, in the case as sent. Names and values are UTF-8, "
            "percent-encoded unless they are ASCII. All messages of a request are published "
            "together or not at all. A request that is repeated publishes again, unless it has "
            "`if_last`."
        ),
        query=RAW_QUERY,
        request=RAW_CONTENT,
        success="The messages were published. The `ids` are in their order.",
        answer=PUBLISHED_IDS_CONTENT,
        errors=(
            "empty_publish",
            "topic_moved",
            "key_required",
            "idempotency_key_refused",
            "invalid_message_header",
            "invalid_message_id",
            "other_shard",
            "topic_not_found",
            "topic_of_the_service",
            "invalid_body",
            "invalid_query",
            *MESSAGE_ERRORS,
            *SCHEMA_ERRORS,
        ),
    ),
)
