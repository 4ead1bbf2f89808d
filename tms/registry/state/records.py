"""The records of the registry's log, and their encoding as messages.

A message's key and value are JSON with sorted fields (`docs/registry.md`):

    {"keytype":"SCHEMA","node":…,"sequence":…,"subject":…,"version":…}  also a soft deletion
    {"keytype":"CONFIG","node":…,"sequence":…,"subject":…}              settings; also MODE
    {"keytype":"COUNTERS"}, {"keytype":"EPOCH"}                         their values have the rest

A record's origin, sequence and node, is in its key, so no two writes share a key, and compaction
removes a record only after a tombstone of the same key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tms.core.services.schemas import NUMBER_MAX, SchemaReference
from tms.core.values.message import Message, tombstone
from tms.core.values.schema_contracts import SchemaMetadata, SchemaRuleSet
from tms.core.values.schema_types import AVRO
from tms.registry.state.schema import Schema, is_number
from tms.registry.state.settings import Config, Mode

SEQUENCE_MAX = 2**62
"""The greatest sequence and epoch of records; no log reaches it."""
SCHEMA, CONFIG, MODE, COUNTERS, EPOCH = "SCHEMA", "CONFIG", "MODE", "COUNTERS", "EPOCH"


class Origin(NamedTuple):
    """Identifies the write of a record."""

    sequence: int
    node: str
    """The writer's id: 64 random bits, new at each start."""


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key of a record. Its fields are sorted by name."""

    keytype: str
    node: str | None = None
    sequence: int | None = None
    subject: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class SchemaWritten:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class VersionDeleted:
    """A soft deletion."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class VersionLost:
    """A version whose value is damaged or out of bounds; it is read, but never written."""

    subject: str
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigWritten:
    """The settings of a scope, all of them."""

    scope: str
    config: Config


@dataclass(frozen=True, slots=True)
class ModeWritten:
    """The mode of a scope."""

    scope: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class CountersWritten:
    """The next id of each context, so that permanent deletions do not free ids."""

    next_ids: Mapping[str, int]
    deleted_contexts: frozenset[str] = frozenset()
    """The deleted contexts without any schema since."""


@dataclass(frozen=True, slots=True)
class EpochWritten:
    """A master started (`mastership`)."""

    epoch: int
    master: str
    """The URL of its registry."""


@dataclass(frozen=True, slots=True)
class Purged:
    """A tombstone: the record of a key is deleted permanently."""

    key: Key


Record = (
    SchemaWritten | VersionDeleted | ConfigWritten | ModeWritten | CountersWritten | EpochWritten
)


class Entry(NamedTuple):
    """The content of a message of the log."""

    origin: Origin | None
    """None for a tombstone, which has no sequence."""
    record: Record | Purged | VersionLost
    written_ms: int


class Unreadable(Exception):
    """Raised for a message that is not a valid record; it says why."""


class _SchemaValue(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    deleted: bool = False
    id: int = 0
    references: tuple[SchemaReference, ...] = ()
    schema: str = ""
    schema_type: str = AVRO
    metadata: SchemaMetadata | None = None
    rule_set: SchemaRuleSet | None = None


class _ModeValue(msgspec.Struct, frozen=True):
    mode: Mode


class _CountersValue(msgspec.Struct, frozen=True, omit_defaults=True):
    next_ids: dict[str, int]
    node: str
    sequence: int
    deleted_contexts: tuple[str, ...] = ()


class _EpochValue(msgspec.Struct, frozen=True):
    epoch: int
    master: str
    node: str
    sequence: int


_encode = msgspec.json.Encoder().encode
_NO_RECORD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_decode_key = msgspec.json.Decoder(Key).decode
_decode_schema = msgspec.json.Decoder(_SchemaValue).decode
_decode_config = msgspec.json.Decoder(Config).decode
_decode_mode = msgspec.json.Decoder(_ModeValue).decode
_decode_counters = msgspec.json.Decoder(_CountersValue).decode
_decode_epoch = msgspec.json.Decoder(_EpochValue).decode


def key_of(record: Record, origin: Origin) -> Key:
    """Return the key of a record."""
    if isinstance(record, CountersWritten):
        return Key(COUNTERS)
    if isinstance(record, EpochWritten):
        return Key(EPOCH)
    sequence, node = origin
    if isinstance(record, SchemaWritten | VersionDeleted):
        return Key(SCHEMA, node, sequence, record.subject, record.version)
    kind = CONFIG if isinstance(record, ConfigWritten) else MODE
    return Key(kind, node, sequence, record.scope)


def encode(record: Record | Purged, origin: Origin) -> Message:
    """Return the message of a record; the origin of a tombstone is ignored."""
    if isinstance(record, Purged):
        return tombstone(_encode(record.key))
    return Message(_encode(_value_of(record, origin)), _encode(key_of(record, origin)))


def _value_of(record: Record, origin: Origin) -> msgspec.Struct:
    if isinstance(record, SchemaWritten):
        schema = record.schema
        return _SchemaValue(
            id=record.id,
            references=schema.references,
            schema=schema.text,
            schema_type=schema.kind,
            metadata=schema.metadata,
            rule_set=schema.rule_set,
        )
    if isinstance(record, VersionDeleted):
        return _SchemaValue(deleted=True)
    if isinstance(record, ConfigWritten):
        return record.config
    if isinstance(record, ModeWritten):
        return _ModeValue(record.mode)
    if isinstance(record, EpochWritten):
        return _EpochValue(record.epoch, record.master, origin.node, origin.sequence)
    deleted = tuple(sorted(record.deleted_contexts))
    return _CountersValue(dict(record.next_ids), origin.node, origin.sequence, deleted)


def decode(message: Message) -> Entry:
    """Return the content of a message of the log. Raises `Unreadable`."""
    if message.key is None:
        raise Unreadable("it has no key")
    try:
        key = _decode_key(message.key)
        if message.is_tombstone:
            return Entry(None, Purged(key), message.publish_timestamp)
        return _entry(key, message)
    except _NO_RECORD as error:
        raise Unreadable(str(error)) from None


def _entry(key: Key, message: Message) -> Entry:
    value, written_ms = message.payload, message.publish_timestamp
    if key.keytype == COUNTERS:
        counters = _decode_counters(value)
        if not all(0 < next_id <= NUMBER_MAX + 1 for next_id in counters.next_ids.values()):
            raise Unreadable(f"an id of its counters is not from 1 to {NUMBER_MAX}")
        origin = _origin(counters.sequence, counters.node)
        deleted = frozenset(counters.deleted_contexts)
        return Entry(origin, CountersWritten(counters.next_ids, deleted), written_ms)
    if key.keytype == EPOCH:
        epoch = _decode_epoch(value)
        origin = _origin(epoch.sequence, epoch.node)
        if not 0 <= epoch.epoch <= SEQUENCE_MAX:
            raise Unreadable("its epoch is out of bounds")
        return Entry(origin, EpochWritten(epoch.epoch, epoch.master), written_ms)
    if key.sequence is None or key.node is None or key.subject is None:
        raise Unreadable("its key lacks sequence, node or subject")
    origin = _origin(key.sequence, key.node)
    record: Record | VersionLost
    if key.keytype == SCHEMA and key.version is not None:
        if not is_number(key.version):
            raise Unreadable(f"its version is not from 1 to {NUMBER_MAX}")
        record = _version_record(key.subject, key.version, value)
    elif key.keytype == CONFIG:
        record = ConfigWritten(key.subject, _decode_config(value))
    elif key.keytype == MODE:
        record = ModeWritten(key.subject, _decode_mode(value).mode)
    else:
        raise Unreadable(f"its keytype is {key.keytype!r}")
    return Entry(origin, record, written_ms)


def _origin(sequence: int, node: str) -> Origin:
    if not 0 <= sequence <= SEQUENCE_MAX:
        raise Unreadable("its sequence is out of bounds")
    return Origin(sequence, node)


def _version_record(subject: str, version: int, value: bytes) -> Record | VersionLost:
    """Return the version in a record; if it is unreadable, that its number is taken."""
    try:
        decoded = _decode_schema(value)
    except _NO_RECORD as error:
        return VersionLost(subject, version, str(error))
    if decoded.deleted:
        return VersionDeleted(subject, version)
    numbers = (decoded.id, *(reference.version for reference in decoded.references))
    if not all(map(is_number, numbers)):
        reason = f"its id, or the version of a reference, is not from 1 to {NUMBER_MAX}"
        return VersionLost(subject, version, reason)
    return _schema_record(subject, version, decoded)


def _schema_record(subject: str, version: int, value: _SchemaValue) -> SchemaWritten:
    schema = Schema(
        value.schema_type, value.schema, value.references, value.metadata, value.rule_set
    )
    return SchemaWritten(subject, version, value.id, schema)
