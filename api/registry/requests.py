"""The shared parts of the registry's handlers: reading requests, and answering in their type."""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from api.http.exchange import OK, Exchange
from api.http.protocol.media_types import best_type_of, check_type, kept
from api.http.query_parameters import values_of
from api.http.request_body import read_body
from api.registry.resources import in_context, reader_of
from tms.core.errors import InvalidRequest
from tms.core.services.schemas import SubmittedSchema
from tms.core.values.schema_types import AVRO
from tms.registry import lookup
from tms.registry.log.service import Registry
from tms.registry.questions.questions import Entity, Tags
from tms.registry.registration import Registered
from tms.registry.sources import submitted_in
from tms.registry.state.refusal import INVALID_BODY, MALFORMED, SCHEMA_NOT_FOUND, RegistryError
from tms.registry.state.registry_state import Version
from tms.registry.state.schema import Schema
from tms.registry.state.subjects import ALL_CONTEXTS, qualified
from tms.wire.json_values import decoder_of, strictly_decoded
from tms.wire.registry_bodies import (
    CONTENT_TYPE,
    EntityBody,
    RegisteredBody,
    SchemaRequest,
    TagsBody,
    VersionBody,
)

_ANSWER_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The types of an answer, in the order of preference."""
REQUEST_TYPES = (*_ANSWER_TYPES, "application/octet-stream")
ESCAPED = 6
"""The most bytes of JSON for an escaped byte of text."""
OTHER_BYTES_MAX = 256 * 1024
"""The most bytes of a request's body in addition to the text of a schema."""
_FIELDS = ("sr_field", "SR_FIELD")
_INT32_MAX = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_encode = msgspec.json.Encoder().encode
B = TypeVar("B")


class Handlers:
    """Handlers of a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._body_bytes_max = ESCAPED * registry.limits.schema_bytes_max + OTHER_BYTES_MAX


async def read_json(exchange: Exchange, kind: type[B], bytes_max: int) -> B:
    """Return the body.

    Raises `RegistryError`: 422 if there is none, 400 if it does not have the required form.
    """
    content_type = exchange.headers.get(b"content-type")
    if content_type is not None:
        check_type(content_type, REQUEST_TYPES)
    body = await read_body(exchange, bytes_max)
    if body.strip() in (b"", b"null"):
        raise RegistryError(INVALID_BODY, reason="the body must not be empty or null")
    try:
        decoded: B = strictly_decoded(decoder_of(kind), body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(MALFORMED, reason=f"The body is not valid: {error}") from None
    return decoded


@kept
def best_type(accept: bytes) -> bytes:
    """Return the type of the answer that an Accept prefers. Raises `InvalidRequest`."""
    return best_type_of(accept, _ANSWER_TYPES).encode()


def _answer_type(exchange: Exchange) -> bytes:
    return best_type(exchange.headers.get(b"accept", b""))


async def answer(exchange: Exchange, body: Any) -> None:
    """Answer with a JSON body."""
    await exchange.answer(OK, _encode(body), _answer_type(exchange))


async def answer_tagged(exchange: Exchange, body: Any) -> None:
    """Answer with a JSON body and its ETag."""
    await exchange.answer_tagged(_encode(body), _answer_type(exchange))


async def answer_in_parts(
    exchange: Exchange, items: Sequence[B], body_of: Callable[[B], Any], at_once: int
) -> None:
    """Answer with a long list, part by part, so that others get their turn in between."""
    await exchange.start_stream(_answer_type(exchange))
    await exchange.send_part(b"[", more=True)
    for first in range(0, len(items), at_once):
        part = [_encode(body_of(item)) for item in items[first : first + at_once]]
        start = b"," if first else b""
        await exchange.send_part(start + b",".join(part), more=True)
        await asyncio.sleep(0)
    await exchange.send_part(b"]", more=False)


async def answer_text(exchange: Exchange, text: str) -> None:
    """Answer with a schema's text, and its ETag."""
    await exchange.answer_tagged(text.encode(errors="replace"), _answer_type(exchange))


def flag(exchange: Exchange, name: str) -> bool:
    """Whether a parameter of the query is "true"; any other word means no, as in Confluent's."""
    return values_of(exchange.query).get(name, "").strip().lower() == "true"


def text(exchange: Exchange, name: str, default: str = "") -> str:
    """Return a parameter of the query."""
    return values_of(exchange.query).get(name, default)


def subject_of(exchange: Exchange) -> str:
    """Return the subject that the path names."""
    return in_context(exchange.names, exchange.names["subject"])


def hint_of(exchange: Exchange) -> str:
    """Return the subject in a query, which gives the context of an id."""
    return in_context(exchange.names, text(exchange, "subject"))


def prefix_of(exchange: Exchange, default: str = "") -> str:
    """Return the prefix of the requested subjects.

    Below a context, the `default` means all of its subjects.
    """
    default = default if "context" not in exchange.names else ""
    prefix = text(exchange, "subjectPrefix", default)
    return prefix if prefix.startswith(ALL_CONTEXTS) else in_context(exchange.names, prefix)


def page(exchange: Exchange, items: Sequence[B]) -> Sequence[B]:
    """Return the part of a list that `offset` and `limit` select. Raises `InvalidRequest`."""
    if not exchange.query:
        return items
    offset = max(0, _number(exchange, "offset", 0))
    limit = _number(exchange, "limit", -1)
    return items[offset : offset + limit] if limit > 0 else items[offset:]


def _number(exchange: Exchange, name: str, default: int) -> int:
    text = values_of(exchange.query).get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text):
        raise InvalidRequest("not_found", path=exchange.path)
    return int(text)


def schema_id(exchange: Exchange) -> int:
    """Return the id in the path. Raises `InvalidRequest` (not_found) if it is not a number."""
    text = exchange.names["id"]
    if not _WHOLE.fullmatch(text) or abs(int(text)) > _INT32_MAX:
        raise InvalidRequest("not_found", path=exchange.path)
    if int(text) < 0:
        raise RegistryError(SCHEMA_NOT_FOUND, which=f" {text}")
    return int(text)


def submitted_of(exchange: Exchange, request: SchemaRequest, subject: str) -> SubmittedSchema:
    """Return the schema that a request submits for a subject."""
    submitted = SubmittedSchema(
        request.schema or "",
        request.schemaType or AVRO,
        request.references or (),
        flag(exchange, "normalize"),
        request.metadata,
        request.ruleSet,
    )
    return submitted_in(subject, submitted)


def tags_of(listed: Sequence[TagsBody] | None) -> Tags:
    """Return the tags that a request lists."""
    return tuple(
        (
            Entity(each.schema_entity.entity_path, each.schema_entity.entity_type in _FIELDS),
            tuple(each.tags),
        )
        for each in listed or ()
    )


def tags_body(tags: Tags) -> list[TagsBody]:
    """Return tags in the form of an answer."""
    return [
        TagsBody(EntityBody(path, "sr_field" if is_field else "sr_record"), list(names))
        for (path, is_field), names in tags
    ]


class Shown(NamedTuple):
    """A schema in the form that the query requests."""

    schema: str
    tags: list[TagsBody] | UnsetType = UNSET


async def shown(exchange: Exchange, registry: Registry, schema: Schema) -> Shown:
    """Return the text of a schema in the form that the query requests, with tags if requested.

    Raises `NotPermitted` as `text_of`.
    """
    if not exchange.query:
        return Shown(schema.text)
    text = await text_of(exchange, registry, schema)
    tags = _wanted_tags(exchange)
    if not tags:
        return Shown(text)
    reader_of(exchange).check_references(registry.state, schema.references)
    look = partial(lookup.tags_in, schema=schema, requested=tags)
    return Shown(text, tags_body(await asyncio.create_task(registry.answer(look))))


def _wanted_tags(exchange: Exchange) -> frozenset[str]:
    """Return the tags that a query requests; `lookup.ALL_TAGS` means all."""
    parameters = parse_qsl(exchange.query.decode(errors="replace"))
    names = {value.strip() for name, value in parameters if name == "findTags"}
    every = {name for name in names if name.lower() == "true"}
    said = names - every - {name for name in names if name.lower() == "false"}
    return frozenset((*said, lookup.ALL_TAGS) if every else said)


async def text_of(exchange: Exchange, registry: Registry, schema: Schema) -> str:
    """Return the text of a schema, in the form that the query requests.

    Raises `NotPermitted` for another form if the caller may not read all of its references.
    """
    form = text(exchange, "format") if exchange.query else ""
    if not form:
        return schema.text
    reader_of(exchange).check_references(registry.state, schema.references)
    # In a task of its own: a request that is answered at once has none.
    look = partial(lookup.text_in, schema=schema, form=form)
    return await asyncio.create_task(registry.answer(look))


def facts_of(schema: Schema) -> dict[str, Any]:
    """Return the fields that each answer with a schema has in addition to its text."""
    return {
        "guid": schema.guid,
        "schemaType": schema.kind,
        "references": schema.references,
        "metadata": schema.metadata,
        "ruleSet": schema.rule_set,
    }


def version_body(version: Version, *, is_lookup: bool = False) -> VersionBody:
    """Return a version in the form of an answer."""
    schema = version.schema
    body = VersionBody(
        subject=version.subject,
        version=version.number,
        id=version.id,
        schema=schema.text,
        **facts_of(schema),
    )
    if is_lookup:
        return body
    return msgspec.structs.replace(body, ts=version.written_ms, deleted=version.is_deleted)


async def answer_registered(
    exchange: Exchange, registry: Registry, subject: str, registered: Registered
) -> None:
    """Answer with the result of a registration; the schema only if the caller may read it."""
    schema, reader = registered.schema, reader_of(exchange)
    in_form = bool(exchange.query) and bool(text(exchange, "format"))
    is_whole = reader.refused_in(registry.state, schema.references) is None
    if not reader.reads(qualified(subject)) or (in_form and not is_whole):
        await answer(exchange, RegisteredBody(registered.id, registered.version))
        return
    body = RegisteredBody(
        id=registered.id,
        version=registered.version,
        schema=(await shown(exchange, registry, schema)).schema,
        **facts_of(schema),
    )
    await answer(exchange, body)
