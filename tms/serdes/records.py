"""Encodes and decodes values of topics by the registry's schemas; needs the extra `schemas`.

Cached properties of topics are at most 10 s old, cached versions 5 minutes. If the server refuses
the resulting payloads, they are encoded once more with fresh data.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio.lowlevel
from cachetools import LRUCache, TTLCache
from google.protobuf.message import Message as ProtoMessage

from tms.core.errors import PayloadRefused, PayloadUndecodable, SchemaRefused
from tms.core.services.records import Decoding, Encoding, GivenSchema, JsonText, Record, SchemaText
from tms.core.services.schemas import LATEST, AsyncSchemas, SchemaVersion
from tms.core.services.server_services import Services
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import Message
from tms.core.values.topic import TopicId
from tms.core.values.topic_schemas import TopicSchemas, schemas_of
from tms.serdes.compiling import compiled
from tms.serdes.proto_files import registered_file
from tms.serdes.serde import SchemaSource, Serde, Undecodable, Unencodable, UnusableSchema
from tms.serdes.serdes import Serdes
from tms.serdes.wire_format import START_BYTES, schema_id_of, start_of

TOPIC_KNOWN_S = 10.0
REGISTERED_KNOWN_S = 300.0
_KNOWN_MAX = 1000
_SINGLE = (str, bytes, Mapping, Record, Message, ProtoMessage)
"""Types of a single value although it can be iterated over."""
_VALUES_A_STEP = 1000
_NO_SUCH_ID = 40403


class Encoder:
    """Encodes the values of one schema."""

    def __init__(self, schema_id: int, serde: Serde) -> None:
        self._start = start_of(schema_id)
        self._serde = serde

    def encode(self, value: Any) -> bytes:
        """Return a payload. Raises `Unencodable`."""
        if isinstance(value, JsonText):
            value = self._serde.from_json(value.text)
        return self._start + self._serde.encode(value)


class Records:
    """The values of one client's topics. Used on one event loop alone."""

    def __init__(self, services: Services) -> None:
        """Read nothing yet."""
        self._services = services
        self._serdes = Serdes(lambda: services.schemas)
        self._topics: TTLCache[TopicId, TopicSchemas] = TTLCache(_KNOWN_MAX, TOPIC_KNOWN_S)
        self._encoders: TTLCache[Any, Encoder] = TTLCache(_KNOWN_MAX, REGISTERED_KNOWN_S)

    @property
    def _schemas(self) -> AsyncSchemas:
        return self._services.schemas

    def forget(self) -> None:
        """Discard what is cached about topics and registered schemas."""
        self._topics.clear()
        self._encoders.clear()

    async def topic(self, topic_id: TopicId) -> TopicSchemas:
        """Return a topic's properties about schemas. Raises `TopicNotFound`."""
        cached = self._topics.get(topic_id)
        if cached is None:
            topic = await self._services.messaging.topic(topic_id)
            cached = self._topics[topic_id] = schemas_of(topic_id, topic.properties)
        return cached

    # Encoding.

    def values_of(self, values: Any) -> list[Any]:
        """Return a caller's values: the items of a list or other iterable, else the one value."""
        if isinstance(values, _SINGLE) or not isinstance(values, Iterable):
            return [values]
        return list(values)

    async def bodies(self, topic_id: TopicId, values: Sequence[Any], how: Encoding) -> list[bytes]:
        """Return the bodies of values.

        Raises `PayloadRefused`, `SchemaRefused`, `TopicNotFound`.
        """
        encode = key_encode = _as_bytes
        if how.schema is not None:
            encode = (await self.encoder(topic_id, how.schema, register=how.register)).encode
        if how.key_schema is not None:
            encoder = await self.encoder(
                topic_id, how.key_schema, is_key=True, register=how.register
            )
            key_encode = encoder.encode
        bodies: list[tuple[bytes, bool]] = []
        for index, value in enumerate(values):
            if index % _VALUES_A_STEP == _VALUES_A_STEP - 1:
                await anyio.lowlevel.checkpoint()
            try:
                if not isinstance(value, Record | Message):
                    bodies.append((encode(value), False))
                    continue
                payload = None if value.is_tombstone else encode(_value_of(value))
                key = None if value.key is None else key_encode(value.key)
                bodies.append(encode_body(payload, key, value.headers))
            except Unencodable as error:
                named = {"field": error.field} if error.field else {}
                where = {"topic": str(topic_id), "index": index, **named}
                raise PayloadRefused("value_unfit", **where, reason=error.reason) from None
        return bodies_of(bodies)

    async def encoder(
        self,
        topic_id: TopicId,
        schema: GivenSchema,
        *,
        is_key: bool = False,
        register: bool = True,
    ) -> Encoder:
        """Return the encoder of a topic's values by a schema. Raises as `bodies`."""
        # A version may have metadata, which is not hashable.
        named = (schema.subject, schema.id) if isinstance(schema, SchemaVersion) else schema
        key = topic_id, named, is_key, register
        cached = self._encoders.get(key)
        if cached is None:
            try:
                cached = await self._encoder(topic_id, schema, is_key=is_key, register=register)
            except UnusableSchema as error:
                raise PayloadRefused(
                    "schema_unusable", topic=str(topic_id), reason=str(error)
                ) from None
            self._encoders[key] = cached
        return cached

    async def _encoder(
        self, topic_id: TopicId, schema: GivenSchema, *, is_key: bool, register: bool
    ) -> Encoder:
        topic = await self.topic(topic_id)
        name_subject = topic.subject_of_key if is_key else topic.value_subject
        if isinstance(schema, SchemaVersion):
            version, message = schema, ""
        elif schema == LATEST:
            version, message = await self._schemas.version(_subject(name_subject, "")), ""
        else:
            encoding = await self._given(schema, register=register)
            record_name = await self._record_name(encoding, topic) if topic.is_by_record else ""
            subject, message = _subject(name_subject, record_name), encoding.message
            put = self._schemas.register if register else self._schemas.find
            version = await put(subject, encoding.text, encoding.schema_type, encoding.references)
        serde = await self._serdes.of_version(version)
        return Encoder(version.id, serde.with_message(message) if message else serde)

    async def _given(self, schema: GivenSchema, *, register: bool) -> SchemaText:
        """Return a schema, after registering the files that a Protobuf class needs."""
        if isinstance(schema, str):
            return SchemaText(schema)
        if isinstance(schema, SchemaText):
            return schema
        if isinstance(schema, type) and issubclass(schema, ProtoMessage):
            return await registered_file(self._schemas, schema, register=register)
        raise TypeError(f"a schema is text, tms.SchemaText or a Protobuf class, not {schema!r:.60}")

    async def _record_name(self, schema: SchemaText, topic: TopicSchemas) -> str:
        """Return the full name of a schema's record. Raises `UnusableSchema`."""
        if schema.message:
            return schema.message
        if schema.references:
            raise UnusableSchema(
                f"name its subject: {topic.strategy} is for schemas without references"
            )
        return compiled(SchemaSource(schema.schema_type, schema.text)).record_name

    # Decoding.

    async def decoder(self, topic_id: TopicId, how: Decoding) -> "Decoder":
        """Return a decoder of a topic's messages. Raises as `bodies`."""
        topic = await self.topic(topic_id)
        reader = None
        if how.schema is not None:
            try:
                reader = await self._reader(topic, how.schema)
            except UnusableSchema as error:
                raise PayloadRefused(
                    "schema_unusable", topic=str(topic_id), reason=str(error)
                ) from None
        return Decoder(self._serdes, topic, how, reader)

    async def _reader(self, topic: TopicSchemas, schema: GivenSchema | int) -> Serde:
        """Return the serde of a reader's schema. Raises `UnusableSchema`."""
        subject = topic.subject or ""
        if isinstance(schema, int):
            serde = await self._serdes.of_id(schema, subject)
        elif isinstance(schema, SchemaVersion):
            serde = await self._serdes.of_version(schema)
        elif schema == LATEST:
            version = await self._schemas.version(_subject(topic.value_subject, ""))
            serde = await self._serdes.of_version(version)
        else:
            decoding = await self._given(schema, register=False)
            if decoding.references:
                raise UnusableSchema("a reader's schema that refers to others is given by its id")
            serde = compiled(SchemaSource(decoding.schema_type, decoding.text))
        if not serde.has_readers:
            raise UnusableSchema("a reader's schema is Avro's")
        return serde


class Decoder:
    """Decodes the messages of one topic."""

    def __init__(
        self, serdes: Serdes, topic: TopicSchemas, how: Decoding, reader: Serde | None
    ) -> None:
        """Decode as `how` says; Avro's values by `reader`, if there is one."""
        self._serdes = serdes
        self._topic = topic
        self._how = how
        self._reader = reader
        self._has_keys = topic.key_subject is not None if how.keys is None else how.keys
        self._read_as: LRUCache[int, Serde] = LRUCache(_KNOWN_MAX)

    async def records(
        self, messages: Iterable[Message]
    ) -> tuple[list[Record], PayloadUndecodable | None]:
        """Return the records before the first message that cannot be decoded, and its error."""
        records: list[Record] = []
        for message in messages:
            record = await self._record(message)
            if record.error is not None and self._how.damaged == "raise":
                return records, PayloadUndecodable(
                    topic=str(self._topic.topic_id), id=message.id.hex(), reason=record.error
                )
            records.append(record)
        return records, None

    async def _record(self, message: Message) -> Record:
        value = schema_id = key_schema_id = error = None
        key: Any = message.key
        try:
            if not message.is_tombstone:
                schema_id = schema_id_of(message.payload)
                value = self._decoded(await self._serde(schema_id), message.payload)
            if key is not None and self._has_keys:
                subject = self._topic.key_subject or ""
                key_serde = await self._serdes.of_id(schema_id_of(key), subject)
                key, key_schema_id = self._decoded(key_serde, key), schema_id_of(key)
        except (Undecodable, UnusableSchema) as failure:
            error = str(failure)
        except SchemaRefused as refused:
            if refused.detail.get("error_code") != _NO_SUCH_ID:
                raise
            error = str(refused.detail.get("reason"))
        return Record(
            value,
            key,
            message.headers,
            message.is_tombstone,
            message.id,
            message.payload,
            schema_id,
            key_schema_id,
            error,
        )

    def _decoded(self, serde: Serde, data: bytes) -> Any:
        value = serde.decode(data, START_BYTES)
        return serde.to_json(value) if self._how.as_json else value

    async def _serde(self, schema_id: int) -> Serde:
        cached = self._read_as.get(schema_id)
        if cached is None:
            cached = await self._serdes.of_id(schema_id, self._topic.subject or "")
            if self._reader is not None and self._reader.kind == cached.kind:
                cached = cached.read_as(self._reader)
            self._read_as[schema_id] = cached
        return cached


def _subject(name_subject: Any, record_name: str) -> str:
    try:
        return str(name_subject(record_name))
    except ValueError as error:
        raise UnusableSchema(str(error)) from None


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Unencodable(f"without a schema a value is bytes, not {type(value).__name__}")
    return value


def _value_of(record: Record | Message) -> Any:
    return record.value if isinstance(record, Record) else record.payload
