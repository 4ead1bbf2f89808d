"""Checks and converts payloads and keys by the registry's schemas (`PayloadValues`).

1. The schema that a payload names is looked up in memory, and otherwise in the log.
2. The checker decodes bytes and texts in its own processes, so hostile ones delay nobody else.
3. A soft-deleted version counts for readers, not for publishers.
4. A caller's values are converted only if it may read the schema and everything the schema refers
   to. Its payloads are checked if it may read or write the schema; without permission to read all
   of it, the error does not say what is wrong.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cachetools import LRUCache

from tms.core.errors import NotPermitted, PayloadRefused, SchemasUnavailable
from tms.core.services.payload_values import DecodedValue, ValueToEncode
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.frame import encode_body, framed_of, read_frame
from tms.core.values.message import Message
from tms.core.values.topic_schemas import SchemaCheck, TopicSchemas
from tms.registry import lookup
from tms.registry.checking.checker import Checker
from tms.registry.log.service import Registry
from tms.registry.questions.questions import (
    Answer,
    Converted,
    Decodes,
    FromJson,
    InJson,
    Misfit,
    Named,
    NoSchema,
    Question,
    RecordName,
    Source,
)
from tms.registry.sources import source_of
from tms.registry.state.readers import READ, WRITE, SchemaReader, reader_of
from tms.registry.state.refusal import SCHEMA_NOT_FOUND, SUBJECT_NOT_FOUND, RegistryError
from tms.registry.state.registry_state import State, Version
from tms.registry.state.subjects import context_of
from tms.serdes.serde import Undecodable
from tms.serdes.wire_format import START_BYTES, schema_id_of, start_of

_NAMES_KEPT = 10_000
_HIDDEN = "it does not match the schema, and you may not read all of that schema"
_NO_SUCH = (SCHEMA_NOT_FOUND, SUBJECT_NOT_FOUND)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Part:
    """The payloads, or the keys, of some messages."""

    name: str
    raw: list[tuple[int, bytes]]
    """With the indexes of their messages."""


class RegistryValues:
    """Payloads and keys by one registry. Used only on its event loop."""

    def __init__(self, registry: Registry, checker: Checker) -> None:
        """Use `checker` for the contents of bytes."""
        self._registry = registry
        self._checker = checker
        self._names: LRUCache[Source, str] = LRUCache(_NAMES_KEPT)

    # Publishers of bytes.

    async def check(
        self, topic: TopicSchemas, bodies: Sequence[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Raise `PayloadRefused` unless all bodies pass the topic's `schema_check`.

        Raises `NotPermitted` if the caller may neither read nor write the subject.
        """
        await asyncio.sleep(0)  # The calls below use the caller of their task.
        for part in _parts_of(topic, bodies):
            await self._check_part(topic, part, caller)

    async def _check_part(self, topic: TopicSchemas, part: _Part, caller: Caller) -> None:
        reader = reader_of(caller)
        # The name of a record is information about its schema.
        user = reader if topic.is_by_record else reader_of(caller, READ, WRITE)
        by_id: dict[int, list[tuple[int, bytes]]] = {}
        for index, raw in part.raw:
            try:
                by_id.setdefault(schema_id_of(raw), []).append((index, raw))
            except Undecodable as error:
                raise _without_schema(topic, part.name, index, error.reason) from None
        for schema_id, resolved in by_id.items():
            version = await self._version_for_publisher(
                topic, part.name, schema_id, resolved[0][0], user
            )
            if topic.check is SchemaCheck.FULL:
                payloads = tuple(raw[START_BYTES:] for _, raw in resolved)
                answer = await self._ask(Decodes(await self._source(version), payloads))
                is_told = reader.reads_whole(self._registry.state, [version])
                if isinstance(answer, NoSchema):
                    raise _unusable(topic, part.name, answer.reason if is_told else _HIDDEN)
                if isinstance(answer, Misfit):
                    answer = answer if is_told else Misfit(answer.index, _HIDDEN)
                    where = {"part": part.name, "index": resolved[answer.index][0]}
                    raise _unfit("payload_unfit", topic, answer, **where, schema_id=schema_id)

    async def _version_for_publisher(
        self, topic: TopicSchemas, part: str, schema_id: int, index: int, user: SchemaReader
    ) -> Version:
        """Return the version with an id, if it belongs to the topic's subject.

        Raises `PayloadRefused`, and `NotPermitted` if `user` may not use it.
        """
        is_by_record = part == "payload" and topic.is_by_record
        try:
            if is_by_record:
                version = await self._found(partial(_seen, schema_id=schema_id, reader=user))
                source = await self._source(version)
                subject = topic.value_subject(await self._record_name(source))
            else:
                name = topic.value_subject if part == "payload" else topic.subject_of_key
                subject = name("")
            look = partial(_live, schema_id=schema_id, name=subject, user=user)
            return await self._found(look)
        except (RegistryError, ValueError) as error:
            raise _without_schema(topic, part, index, str(error), schema_id) from None

    # Publishers of JSON.

    async def encoded(
        self,
        topic: TopicSchemas,
        values: Mapping[int, ValueToEncode],
        *,
        caller: Caller = ANYBODY,
    ) -> dict[int, tuple[bytes, bool]]:
        """Return the bodies of messages given as values, by the latest schemas of the subjects.

        Raises `PayloadRefused`, and `NotPermitted` if the caller may not read these schemas.
        """
        reader = reader_of(caller)
        await asyncio.sleep(0)  # as in `check`
        texts = [(index, one.value) for index, one in values.items() if one.value is not None]
        payloads = await self._encoded_part(topic, _Part("payload", texts), reader)
        keyed = [
            (index, one.key_value) for index, one in values.items() if one.key_value is not None
        ]
        keys = await self._encoded_part(topic, _Part("key", keyed), reader)
        return {
            index: encode_body(payloads.get(index), keys.get(index, one.key), one.headers)
            for index, one in values.items()
        }

    async def _encoded_part(
        self, topic: TopicSchemas, part: _Part, reader: SchemaReader
    ) -> dict[int, bytes]:
        if not part.raw:
            return {}
        try:
            name = topic.value_subject if part.name == "payload" else topic.subject_of_key
            version = await self._found(partial(_latest, name=name(""), reader=reader))
            source = await self._source(version)
        except (RegistryError, ValueError) as error:
            raise _unusable(topic, part.name, str(error)) from None
        answer = await self._ask(FromJson(source, tuple(text for _, text in part.raw)))
        if isinstance(answer, NoSchema):
            raise _unusable(topic, part.name, answer.reason)
        assert isinstance(answer, Converted)
        start = start_of(version.id)
        made: dict[int, bytes] = {}
        for (index, _), encoded in zip(part.raw, answer.parts, strict=True):
            if isinstance(encoded, Misfit):
                where = {"part": part.name, "index": index}
                raise _unfit("value_unfit", topic, encoded, **where, schema_id=version.id)
            made[index] = start + encoded
        return made

    # Readers of JSON.

    async def decoded(
        self, topic: TopicSchemas, messages: Sequence[Message], *, caller: Caller = ANYBODY
    ) -> list[DecodedValue]:
        """Return the values of messages, as far as the caller may read their schemas."""
        reader = reader_of(caller)
        await asyncio.sleep(0)  # as in `check`
        payloads = [
            (index, message.payload)
            for index, message in enumerate(messages)
            if not message.is_tombstone
        ]
        values = await self._decoded_part(topic.subject, payloads, reader)
        keys: dict[int, DecodedValue] = {}
        if topic.key_subject is not None:
            raw = [
                (index, message.key)
                for index, message in enumerate(messages)
                if message.key is not None
            ]
            keys = await self._decoded_part(topic.key_subject, raw, reader)
        nothing = DecodedValue()
        return [
            _joined(values.get(index, nothing), keys.get(index, nothing))
            for index in range(len(messages))
        ]

    async def _decoded_part(
        self, subject: str | None, raw: list[tuple[int, bytes]], reader: SchemaReader
    ) -> dict[int, DecodedValue]:
        values: dict[int, DecodedValue] = {}
        by_id: dict[int, list[tuple[int, bytes]]] = {}
        for index, data in raw:
            try:
                by_id.setdefault(schema_id_of(data), []).append((index, data))
            except Undecodable as error:
                values[index] = DecodedValue(error=error.reason)
        for schema_id, resolved in by_id.items():
            parts = await self._in_json(subject, schema_id, [data for _, data in resolved], reader)
            for (index, _), part in zip(resolved, parts, strict=True):
                if isinstance(part, bytes):
                    values[index] = DecodedValue(part, schema_id=schema_id)
                else:
                    values[index] = DecodedValue(schema_id=schema_id, error=_shown(part))
        return values

    async def _in_json(
        self, subject: str | None, schema_id: int, raw: list[bytes], reader: SchemaReader
    ) -> Sequence[bytes | Misfit]:
        try:
            look = partial(_seen, schema_id=schema_id, hint=subject or "", reader=reader)
            version = await self._found(look)
            reader.check_references(self._registry.state, version.schema.references)
            source = await self._source(version)
        except RegistryError as error:
            return [Misfit(0, str(error))] * len(raw)
        except NotPermitted:
            return [Misfit(0, f"you may not read the schema {schema_id} that it names")] * len(raw)
        question = InJson(source, tuple(data[START_BYTES:] for data in raw))
        try:
            answer = await self._ask(question)
        except SchemasUnavailable as error:  # Hostile bytes must not stop the reader.
            return [Misfit(0, str(error.detail["reason"]))] * len(raw)
        if isinstance(answer, NoSchema):
            return [Misfit(0, answer.reason)] * len(raw)
        assert isinstance(answer, Converted)
        return answer.parts

    # The registry.

    async def _found(self, look: Callable[[State], T]) -> T:
        """Return the result of a lookup. Raises `RegistryError` (404…), `SchemasUnavailable`."""
        try:
            return await self._registry.find(look)
        except RegistryError as error:
            if error.code in _NO_SUCH:
                raise
            raise SchemasUnavailable(reason=str(error)) from None

    async def _source(self, version: Version) -> Source:
        return await self._registry.answer(partial(source_of, schema=version.schema))

    async def _record_name(self, source: Source) -> str:
        name = self._names.get(source)
        if name is None:
            answer = await self._ask(RecordName(source))
            name = self._names[source] = answer.name if isinstance(answer, Named) else ""
        return name

    async def _ask(self, question: Question) -> Answer:
        """Return an answer. Raises `SchemasUnavailable` if there is none in time."""
        [answer] = await self._checker.answers([question])
        return answer


def _parts_of(topic: TopicSchemas, bodies: Sequence[bytes]) -> list[_Part]:
    """Return the payloads, and also the keys if they have schemas."""
    framed = frozenset(framed_of(bodies))
    payloads: list[tuple[int, bytes]] = []
    keys: list[tuple[int, bytes]] = []
    for index, body in enumerate(bodies):
        if index not in framed:
            payloads.append((index, body))
            continue
        key, _, has_payload, end = read_frame(body)
        if has_payload:
            payloads.append((index, body[end:]))
        if key is not None:
            keys.append((index, key))
    parts = [_Part("payload", payloads)]
    return [*parts, _Part("key", keys)] if topic.key_subject is not None else parts


def _without_schema(
    topic: TopicSchemas, part: str, index: int, reason: str, schema_id: int | None = None
) -> PayloadRefused:
    named = {} if schema_id is None else {"schema_id": schema_id}
    return PayloadRefused(
        "payload_without_schema",
        topic=str(topic.topic_id),
        part=part,
        index=index,
        reason=reason,
        **named,
    )


def _unusable(topic: TopicSchemas, part: str, reason: str) -> PayloadRefused:
    return PayloadRefused("schema_unusable", topic=str(topic.topic_id), part=part, reason=reason)


def _unfit(code: str, topic: TopicSchemas, misfit: Misfit, **where: object) -> PayloadRefused:
    named = {"field": misfit.field} if misfit.field else {}
    return PayloadRefused(code, topic=str(topic.topic_id), **where, **named, reason=misfit.reason)


def _joined(value: DecodedValue, key: DecodedValue) -> DecodedValue:
    error = value.error or (f"the key: {key.error}" if key.error else None)
    return DecodedValue(value.value, key.value, value.schema_id, error)


def _shown(misfit: Misfit) -> str:
    return f"{misfit.field}: {misfit.reason}" if misfit.field else misfit.reason


def _seen(state: State, schema_id: int, reader: SchemaReader, hint: str = "") -> Version:
    """Return a readable version with an id. Raises `RegistryError`, `NotPermitted`."""
    version = lookup.version_of_id(state, schema_id, hint)
    return reader.one_of(version, lookup.all_uses_of_id(state, schema_id, hint))


def _live(state: State, schema_id: int, name: str, user: SchemaReader) -> Version:
    """Return a version of a subject that has an id.

    Raises `RegistryError` (40403), and `NotPermitted` if `user` may not use the subject.
    """
    subject = state.resolved(name)
    user.check(subject)
    for version in state.space(context_of(subject)).uses.get(schema_id, {}).values():
        if version.subject == subject and not version.is_deleted:
            return version
    raise RegistryError(SCHEMA_NOT_FOUND, which=f" {schema_id} of subject '{name}'")


def _latest(state: State, name: str, reader: SchemaReader) -> Version:
    """Return the latest version of a subject. Raises `RegistryError` (40401), `NotPermitted`."""
    subject = state.resolved(name)
    reader.check(subject)
    version = state.latest(subject)
    if version is None:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=name)
    reader.check_references(state, version.schema.references)
    return version
