"""Protobuf's messages, by Protobuf's own library.

A value is a message, either of a class generated from the same file or of the class that is made
here from the schema's descriptor. A mapping represents a message as JSON does.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from tms.core.text.credentials import shortened
from tms.core.values.schema_types import PROTOBUF
from tms.core.values.varints import varint
from tms.serdes.serde import SchemaSource, Serde, Undecodable, Unencodable, UnusableSchema
from tms.serdes.standard_protos import STANDARD_FILES
from tms.serdes.wire_format import encode_path, read_path

_NAMES_CHARS = 500
_FILE_NAME = "schema.proto"
"""The name of a file that no other file imports."""
Path = tuple[int, ...]


class ProtoSerde(Serde):
    """One schema: the messages of a file."""

    kind = PROTOBUF

    def __init__(self, source: SchemaSource, message: str = "") -> None:
        """Compile a schema; a mapping represents a `message`, by default the source's.

        Raises `UnusableSchema`.
        """
        self._source = source
        self._paths = dict(_messages(_file(source)))
        self._path_of = {each.full_name: path for path, each in self._paths.items()}
        self._names = {path: name for name, path in self._path_of.items()}
        message = message or source.message
        if not self._paths:
            raise UnusableSchema("it has no message")
        if message and message not in self._path_of:
            there = shortened(", ".join(self._path_of), _NAMES_CHARS)
            raise UnusableSchema(f"it has no message {message}; there are {there}")
        path = self._path_of[message] if message else (0,)
        self._main = self._paths[path]
        self.record_name = str(self._main.full_name)

    def with_message(self, message: str) -> "ProtoSerde":
        """Return a serde in which a mapping represents another message of the file."""
        return ProtoSerde(self._source, message)

    def read_as(self, reader: "ProtoSerde") -> "ProtoSerde":
        """Return a serde whose messages are those of another schema, matched by number.

        It decodes only messages with the name of the reader's message.
        """
        made = copy(self)
        made._paths = {  # noqa: SLF001  its own class
            path: reader.descriptor
            for path, each in self._paths.items()
            if each.full_name == reader.record_name
        }
        return made

    @property
    def descriptor(self) -> Descriptor:
        """The message that a mapping represents."""
        return self._main

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a payload after the id. Raises `Unencodable`."""
        message = value if isinstance(value, Message) else self._parsed(value)
        path = self._path_of.get(message.DESCRIPTOR.full_name)
        if path is None:
            raise Unencodable(f"the schema has no message {message.DESCRIPTOR.full_name}")
        try:
            return encode_path(path) + message.SerializeToString()
        except EncodeError as error:
            raise Unencodable(str(error)) from None

    def _parsed(self, value: Any) -> Message:
        if not isinstance(value, Mapping):
            name = type(value).__name__
            raise Unencodable(f"a message or a mapping is expected, not {name}")
        return self._read(lambda made, **pool: json_format.ParseDict(dict(value), made, **pool))

    def _read(self, read: Callable[..., Message]) -> Message:
        try:
            return read(_class(self._main)(), descriptor_pool=self._main.file.pool)
        except RecursionError:
            raise Unencodable("it is nested too deeply") from None
        except Exception as error:  # The library raises Python's errors for a wrong value.
            raise Unencodable(str(error)) from None

    def decode(self, data: bytes, at: int) -> Message:
        """Return the value from `at` to the end. Raises `Undecodable`."""
        path, at = read_path(data, at)
        descriptor = self._paths.get(path)
        if descriptor is None:
            name = self._names.get(path)
            if name is not None:
                raise Undecodable(f"it is a {name}, but another message of the file is read")
            raise Undecodable(f"its schema has no message to read at {list(path)}")
        message = _class(descriptor)()
        try:
            message.ParseFromString(data[at:])
        except DecodeError as error:
            raise Undecodable(str(error), _damaged_field(data[at:], descriptor)) from None
        if not message.IsInitialized():
            raise Undecodable("it is required and missing", _missing(message))
        return message

    def from_json(self, text: bytes) -> Message:
        """Return the value of Protobuf's JSON mapping. Raises `Unencodable`."""
        is_well_known = self.record_name.startswith("google.protobuf.")
        if not is_well_known and not text.lstrip().startswith(b"{"):
            raise Unencodable("it is not a JSON object")
        return self._read(lambda made, **pool: json_format.Parse(text, made, **pool))

    def to_json(self, value: Message) -> bytes:
        """Return a value in Protobuf's JSON, with the file's names of fields."""
        pool: Any = value.DESCRIPTOR.file.pool
        try:
            return json_format.MessageToJson(
                value,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                indent=None,
                descriptor_pool=pool,
            ).encode()
        except Exception as error:  # A well-known type may have a value that JSON lacks.
            raise Undecodable(f"it cannot be written as JSON: {error}") from None


def _class(descriptor: Descriptor) -> type[Message]:
    return message_factory.GetMessageClass(descriptor)


def _file(source: SchemaSource) -> FileDescriptor:
    """Return the file of a schema, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    for serialized in STANDARD_FILES.values():
        pool.AddSerializedFile(serialized)
    try:
        for name, text in source.references:
            if name not in STANDARD_FILES:
                pool.AddSerializedFile(_named(name, text))
        name = _FILE_NAME
        while name in (reference for reference, _ in source.references):
            name = f"_{name}"
        pool.AddSerializedFile(_named(name, source.text))
        return pool.FindFileByName(name)
    except (TypeError, ValueError, KeyError, DecodeError) as error:
        raise UnusableSchema(f"its descriptor is damaged: {error}") from None


def _named(name: str, text: str) -> bytes:
    """Return a serialized file, renamed to the name of an import."""
    described = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    described.name = name
    return described.SerializeToString()


def _messages(file: FileDescriptor) -> Iterator[tuple[Path, Descriptor]]:
    """Yield all messages of a file, with their paths of indexes."""
    described = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    for index, message_type in enumerate(described.message_type):
        yield from _with_nested((index,), file.message_types_by_name[message_type.name])


def _with_nested(path: Path, message: Descriptor) -> Iterator[tuple[Path, Descriptor]]:
    yield path, message
    for index, nested_type in enumerate(message.nested_types):
        yield from _with_nested((*path, index), nested_type)


def _missing(message: Any) -> str:
    return str(message.FindInitializationErrors()[0])


def _damaged_field(data: bytes, descriptor: Descriptor) -> str:
    """Return the first top-level field that cannot be read, empty if unknown."""
    whole = Empty()
    try:
        whole.ParseFromString(data)
    except DecodeError:
        return ""
    unknown: Any = UnknownFieldSet(whole)
    for each in unknown:
        field = descriptor.fields_by_number.get(each.field_number)
        if field is None or not isinstance(each.data, bytes):
            continue
        alone = _class(descriptor)()
        raw = varint(each.field_number << 3 | 2) + varint(len(each.data)) + each.data
        try:
            alone.ParseFromString(raw)
        except DecodeError:
            return str(field.name)
    return ""
