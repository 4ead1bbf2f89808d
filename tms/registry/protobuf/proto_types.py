"""The messages and enums of a Protobuf file by name, from protoc's descriptors. Pure.

A name in a text means the nearest type of that name: in the message, in the enclosing ones, in the
package, in the enclosing packages. With a leading dot it is the full name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

SCALARS = frozenset(
    (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
)
MAP = "map"
SCALAR_NAMES = {FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}"): name for name in SCALARS}
_LABELS = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional",
    FieldDescriptorProto.LABEL_REQUIRED: "required",
    FieldDescriptorProto.LABEL_REPEATED: "repeated",
}


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message."""

    name: str
    tag: int
    type: str
    """A scalar's name, the full name of a message or enum, or `map`."""
    label: str | None = None
    """`required`, `optional` or `repeated`, if present."""
    key: str = ""
    """For a map: the type of its keys."""
    value: str = ""
    """For a map: the type of its values."""


@dataclass(slots=True)
class ProtoMessage:
    """A message."""

    name: str
    """With the package and the enclosing messages."""
    fields: dict[int, ProtoField] = field(default_factory=dict)
    """By tag, the fields outside oneofs."""
    oneofs: dict[str, dict[int, ProtoField]] = field(default_factory=dict)
    """By name, the fields of each oneof."""

    @property
    def places(self) -> dict[int, tuple[str, ProtoField]]:
        """By tag, each field with the name of its oneof; empty if it has none."""
        parts = {"": self.fields, **self.oneofs}
        return {tag: (name, each) for name, fields in parts.items() for tag, each in fields.items()}


@dataclass(slots=True)
class ProtoTypes:
    """The types of a file and of its imports."""

    package: str = ""
    own: list[str] = field(default_factory=list)
    """The names of the file's own messages, in order."""
    messages: dict[str, ProtoMessage] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)
    packages: dict[str, str] = field(default_factory=dict)
    """By a message's name, its package."""

    def without_package(self, name: str) -> str:
        """Return the name of a message within its package."""
        package = self.packages.get(name, self.package)
        return name.removeprefix(f"{package}.") if package else name


def types_of(files: Iterable[FileDescriptorProto]) -> ProtoTypes:
    """Return the types of a file, the last one, and of its imports."""
    types = ProtoTypes()
    for file in files:
        types.package, types.own = file.package, []
        types.enums.update(_joined(file.package, each.name) for each in file.enum_type)
        for name, message in _messages(file.message_type, file.package):
            types.own.append(name)
            types.packages[name] = file.package
            types.messages[name] = _message(name, message, is_proto3=file.syntax == "proto3")
            types.enums.update(_joined(name, each.name) for each in message.enum_type)
    return types


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _messages(
    messages: Iterable[DescriptorProto], scope: str
) -> Iterator[tuple[str, DescriptorProto]]:
    """Yield messages with their full names, outer before inner ones."""
    for message in messages:
        if not message.options.map_entry:
            name = _joined(scope, message.name)
            yield name, message
            yield from _messages(message.nested_type, name)


def _message(name: str, described: DescriptorProto, *, is_proto3: bool) -> ProtoMessage:
    made = ProtoMessage(name)
    entries = {
        f".{name}.{each.name}": each for each in described.nested_type if each.options.map_entry
    }
    for each in described.field:
        field = _field(each, entries.get(each.type_name), is_proto3=is_proto3)
        if is_in_oneof(each):
            oneof = described.oneof_decl[each.oneof_index].name
            made.oneofs.setdefault(oneof, {})[field.tag] = field
        else:
            made.fields[field.tag] = field
    return made


def is_in_oneof(described: FieldDescriptorProto) -> bool:
    """Whether a field is in an explicit oneof."""
    return described.HasField("oneof_index") and not described.proto3_optional


def _field(
    described: FieldDescriptorProto, entry: DescriptorProto | None, *, is_proto3: bool
) -> ProtoField:
    if entry is not None:
        key, value = map(type_name, entry.field)
        return ProtoField(described.name, described.number, MAP, key=key, value=value)
    label = label_of(described, is_proto3=is_proto3)
    return ProtoField(described.name, described.number, type_name(described), label)


def label_of(described: FieldDescriptorProto, *, is_proto3: bool) -> str | None:
    """Return the label that is written before a field."""
    is_optional = described.label == FieldDescriptorProto.LABEL_OPTIONAL
    is_plain = is_optional and is_proto3 and not described.proto3_optional
    return None if is_plain or is_in_oneof(described) else _LABELS[described.label]


def type_name(described: FieldDescriptorProto) -> str:
    """Return a scalar's name, or the full name of a message or enum."""
    return SCALAR_NAMES.get(described.type) or described.type_name.removeprefix(".")


def resolved(types: ProtoTypes, scope: str, name: str) -> str:
    """Return the full name of the type that a name means within a scope."""
    for candidate in _candidates(scope, name):
        if candidate in types.messages or candidate in types.enums:
            return candidate
    return name.removeprefix(".")


def _candidates(scope: str, name: str) -> Iterator[str]:
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name
