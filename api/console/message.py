"""One message: its content, its fate with the reasons, and its payload as a download."""

from typing import Any

from api.console.fates import MessageFate, fates_of
from api.console.looking import Look
from api.console.payload_forms import (
    INDENT,
    Form,
    SchemaForm,
    form_of,
    shown_headers,
    shown_payload,
)
from api.console.row import Row
from api.console.shown import payload as as_text
from api.console.visit import Answer, Download, ShownPage, Visit, place
from tms.core.errors import InvalidRequest
from tms.core.services.messaging import MessagingService
from tms.core.values.message import Message, MessageId, id_after, parse_id
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicMetadata
from tms.core.values.topic_schemas import schemas_of
from tms.core.values.transaction import ALL_VISIBLE_LATEST
from tms.security.resources import Action

_PAYLOAD_CHARS, _KEY_CHARS, _HEADERS_CHARS = 20_000, 2_000, 5_000
_NEWER_MAX = 2_000
"""The most messages that are searched for a newer one of the same key."""
_HIDDEN = {"said", "payload", "key", "headers", "id", "published_ms", "sequence", "table", "topic"}
"""The parts of an explanation that the page shows in its own way."""


async def message(visit: Visit) -> Answer:
    """Show a message, and explain it."""
    services, topic_id = visit.services, visit.exchange.topic_id
    message_id = parse_id(visit.names["id"])
    topic = await services.messaging.topic(topic_id)
    message = await Look(services.messaging, topic_id).one(message_id)
    form = form_of(visit.query.get("form", ""))
    newer = None
    if message is None:
        ranges = await services.ranges.ranges([topic_id], Isolation.ALL)
        has_expired = message_id < ranges.expired_before.get(topic_id, b"")
        fate = MessageFate.EXPIRED if has_expired else None
    else:
        [fate] = await fates_of(services, topic, [[message]])
        newer = await _newer(services.messaging, topic, message)
        if newer is not None and fate is MessageFate.COMMITTED:
            fate = MessageFate.SUPERSEDED
    inspection = services.inspection
    facts: dict[str, Any] = {}
    if inspection is not None and visit.may(Action.OPERATE):
        facts = await inspection.explain(topic_id, message_id)
    values = {
        "topic": topic,
        "id": message_id.hex(),
        "parts": MessageId.decode(message_id),
        "message": message,
        "fate": fate,
        "newer": newer,
        "said": facts.get("said", ()),
        "facts": {name: str(value) for name, value in facts.items() if name not in _HIDDEN},
        "form": form,
        "forms": list(Form),
        "here": place("namespaces", topic_id.namespace, "topics", topic_id.name),
        **({} if message is None else await _content(visit, topic, message, form)),
    }
    return ShownPage("message.html", values)


async def _content(
    visit: Visit, topic: TopicMetadata, message: Message, form: Form
) -> dict[str, object]:
    """Return the content of a message as a page shows it."""
    decoded = None
    if form is Form.SCHEMA:
        schemas = schemas_of(topic.id, topic.properties)
        values = visit.services.messaging.values
        [decoded] = await SchemaForm(values, schemas, visit.exchange.caller).decoded([message])
    return {
        "key": None if message.key is None else as_text(message.key, _KEY_CHARS),
        "headers": shown_headers(message, _HEADERS_CHARS),
        "payload": shown_payload(message, form, _PAYLOAD_CHARS, decoded, indent=INDENT),
        "schema_id": None if decoded is None else decoded.schema_id,
    }


async def _newer(
    messaging: MessagingService, topic: TopicMetadata, message: Message
) -> bytes | None:
    """Return the id of a newer message of the same key, if a compact topic has one nearby."""
    if not topic.is_compact or message.key is None:
        return None
    position: bytes | None = id_after(message.id)
    remaining = _NEWER_MAX
    while position is not None and remaining > 0:
        page = await messaging.page(topic.id, Reading(position, remaining, ALL_VISIBLE_LATEST))
        for block in page.blocks:
            for newer in block:
                if newer.key == message.key:
                    return newer.id
        remaining -= max(page.count, 1)
        position = page.next_position
    return None


async def payload(visit: Visit) -> Answer:
    """Return a payload as a download."""
    topic_id, message_id = visit.exchange.topic_id, parse_id(visit.names["id"])
    message = await Look(visit.services.messaging, topic_id).one(message_id)
    if message is None:
        raise InvalidRequest("not_found", path=visit.exchange.path)
    return Download(f"{topic_id.name}-{message_id.hex()}.bin", message.payload)


_MESSAGE = "/namespaces/{namespace}/topics/{topic}/messages/{id}"
ROWS = (
    Row("Message", _MESSAGE, message, Action.CONSUME),
    Row("Payload", f"{_MESSAGE}/payload", payload, Action.CONSUME, is_download=True),
)
