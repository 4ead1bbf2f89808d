"""Messages of a topic: the newest, those after a time or an id, those of a key; publish one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from api.console.fates import MessageFate, fates_of
from api.console.looking import SHOWN, Found, Look
from api.console.message_form import HEADERS, body_of
from api.console.payload_forms import (
    Form,
    SchemaForm,
    form_of,
    shown_headers,
    shown_payload,
)
from api.console.row import Row
from api.console.shown import payload as as_text
from api.console.times import time_of
from api.console.visit import Answer, Done, ShownPage, Visit, place
from tms.core.errors import TopicNotFound
from tms.core.services.payload_values import DecodedValue
from tms.core.values.message import FIRST_ID, Message, first_id_at, parse_id
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicMetadata
from tms.core.values.topic_schemas import schemas_of
from tms.security.resources import Action

_HEX = "0x"
_PAYLOAD_CHARS, _KEY_CHARS, _HEADERS_CHARS = 240, 60, 120
"""How many characters of a message a list shows."""


class ListedMessage(NamedTuple):
    """A message in a list."""

    message: Message
    fate: MessageFate
    key: str | None
    headers: Sequence[tuple[str, str]]
    payload: str


async def messages(visit: Visit) -> Answer:
    """Show messages."""
    topic_id, query = visit.exchange.topic_id, visit.query
    topic = await visit.services.messaging.topic(topic_id)
    look = Look(visit.services.messaging, topic_id)
    search = {name: query.get(name, "") for name in ("at", "id", "key", "after")}
    result = await _search(visit, look, search)
    form = form_of(query.get("form", ""))
    is_spread = bool(search["key"])
    runs = [[message] for message in result.messages] if is_spread else [result.messages]
    fates = await fates_of(visit.services, topic, runs)
    is_newest = not any(search.values())
    rows = await _shown(visit, topic, result.messages, fates, form)
    here = place("namespaces", topic_id.namespace, "topics", topic_id.name)
    kept = {"form": form.value, "key": search["key"]}
    values = {
        "topic": topic,
        "rows": rows[::-1] if is_newest else rows,
        "search": search,
        "form": form,
        "forms": list(Form),
        "result": result,
        "is_newest": is_newest,
        "here": here,
        "next": here + "/messages" + place(**kept, after=result.next.hex()) if result.next else "",
        "may_publish": visit.may_change_topic(Action.PUBLISH, topic_id.namespace, topic_id.name),
        "headers_field": HEADERS,
        "has_registry": visit.services.messaging.values is not None,
    }
    return ShownPage("messages.html", values)


async def _search(visit: Visit, look: Look, query: Mapping[str, str]) -> Found:
    """Return the messages that a query selects. Raises `InvalidRequest`."""
    position = None
    if query["after"]:
        position = parse_id(query["after"])
    elif query["id"]:
        position = parse_id(query["id"].strip())
    elif query["at"]:
        position = first_id_at(max(0, time_of(query["at"])))
    if query["key"]:
        return await look.of_key(_keys_of(query["key"]), position or FIRST_ID)
    if position is not None:
        return await look.page(position, SHOWN)
    ranges = await visit.services.ranges.ranges([look.topic_id], Isolation.ALL)
    log = ranges.topics[look.topic_id]
    if log is None:
        raise TopicNotFound(topic=str(look.topic_id))
    return await look.newest(log, ranges.time_ms)


def _keys_of(text: str) -> set[bytes]:
    """Return the keys that a text may mean: its UTF-8, or the bytes if it is hexadecimal."""
    keys = {text.encode("utf-8", "replace")}
    if text.startswith(_HEX):
        with suppress(ValueError):
            keys.add(bytes.fromhex(text.removeprefix(_HEX)))
    return keys


async def _shown(
    visit: Visit,
    topic: TopicMetadata,
    messages: Sequence[Message],
    fates: Sequence[MessageFate],
    form: Form,
) -> list[ListedMessage]:
    decoded: Sequence[DecodedValue | None] = [None] * len(messages)
    if form is Form.SCHEMA:
        schemas = schemas_of(topic.id, topic.properties)
        values = visit.services.messaging.values
        decoded = await SchemaForm(values, schemas, visit.exchange.caller).decoded(messages)
    return [
        ListedMessage(
            message,
            fate,
            None if message.key is None else as_text(message.key, _KEY_CHARS),
            shown_headers(message, _HEADERS_CHARS),
            shown_payload(message, form, _PAYLOAD_CHARS, value),
        )
        for message, fate, value in zip(messages, fates, decoded, strict=True)
    ]


async def publish(visit: Visit) -> Answer:
    """Publish a message."""
    topic_id, exchange = visit.exchange.topic_id, visit.exchange
    body = await body_of(visit, topic_id)
    if exchange.use is not None:
        exchange.use.take_publish(1, len(body))
    published = await visit.services.messaging.publish(topic_id, [body], caller=exchange.caller)
    here = place("namespaces", topic_id.namespace, "topics", topic_id.name, "messages")
    return Done(here, f"Published with the id {published[0].hex()}.")


_TOPIC = "/namespaces/{namespace}/topics/{topic}"
ROWS = (
    Row("Messages", f"{_TOPIC}/messages", messages, Action.CONSUME),
    Row("Publish", f"{_TOPIC}/publish", publish, Action.PUBLISH, is_form=True),
)
