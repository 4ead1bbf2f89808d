"""Converts the descriptor of a Protobuf file to the tree of its text, options included.

Some clients send a descriptor instead of a text. Custom options are known if the descriptor is from
a pool that has their definitions (`with_options`). Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from proto_schema_parser import ast

from tms.registry.protobuf.proto_tree import ProtoGroup, Quoted
from tms.registry.protobuf.proto_types import SCALAR_NAMES, is_in_oneof, label_of
from tms.registry.questions.questions import InvalidSchema

_MAX_TAG = 536_870_911
_MAX_INT32 = 2_147_483_647
_PROTO2, _PROTO3 = "proto2", "proto3"
_DESCRIPTOR_FILE = "google/protobuf/descriptor.proto"


def with_options(raw: bytes, imported: Iterable[pb.FileDescriptorProto]) -> Any:
    """Return a serialized descriptor that knows all the options that `imported` define.

    `imported` are its imports, each after its own imports. Raises `InvalidSchema`.
    """
    pool = DescriptorPool()
    files = [*imported, pb.FileDescriptorProto.FromString(raw)]
    if _DESCRIPTOR_FILE not in {file.name for file in files}:
        files.insert(0, pb.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb))
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise InvalidSchema(str(error).rpartition("descriptor pool: ")[2]) from None
    kind: Any = GetMessageClass(
        pool.FindMessageTypeByName(pb.FileDescriptorProto.DESCRIPTOR.full_name)
    )
    return kind.FromString(raw)


def file_of(descriptor: Any) -> ast.File:
    """Return the tree of a descriptor's file.

    Raises `InvalidSchema` if it cannot be written as text.
    """
    if descriptor.syntax not in ("", _PROTO2, _PROTO3):
        raise InvalidSchema("editions are not known here: use syntax proto2 or proto3")
    return _File(descriptor).tree()


class _File:
    """The file of a descriptor."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor
        self._is_proto3 = descriptor.syntax == _PROTO3

    def tree(self) -> ast.File:
        """Return its tree."""
        descriptor, package = self._descriptor, self._descriptor.package
        public, weak = {*descriptor.public_dependency}, {*descriptor.weak_dependency}
        elements: list[Any] = [ast.Package(package)] if package else []
        elements += [
            ast.Import(name, public=number in public, weak=number in weak)
            for number, name in enumerate(descriptor.dependency)
        ]
        elements += _options_of(descriptor.options)
        scope = f".{package}" if package else ""
        extensions, groups = self._extensions(descriptor, scope)
        elements += [
            self._message(each, scope)
            for each in descriptor.message_type
            if each.name not in groups
        ]
        elements += [_enum_of(each) for each in descriptor.enum_type]
        elements += extensions
        elements += [_service_of(each) for each in descriptor.service]
        return ast.File(syntax=descriptor.syntax or _PROTO2, file_elements=elements)

    def _message(self, descriptor: Any, outer: str) -> ast.Message:
        return ast.Message(
            descriptor.name, self._elements(descriptor, f"{outer}.{descriptor.name}")
        )

    def _elements(self, descriptor: Any, scope: str) -> list[Any]:
        """Return the elements of a message."""
        elements = _reserved_of(descriptor, ast.Reserved, 1, _MAX_TAG)
        elements += _options_of(descriptor.options)
        nested = {f"{scope}.{each.name}": each for each in descriptor.nested_type}
        oneofs = [ast.OneOf(each.name, _options_of(each.options)) for each in descriptor.oneof_decl]
        written = set()
        for field in descriptor.field:
            inner = nested.get(field.type_name)
            part = self._field(field, inner, scope)
            if isinstance(part, ast.MapField | ProtoGroup):
                written.add(field.type_name)
            if is_in_oneof(field):
                oneofs[field.oneof_index].elements.append(part)
                elements.append(oneofs[field.oneof_index])
            else:
                elements.append(part)
        elements = _once(elements)
        elements += _extension_ranges_of(descriptor)
        extensions, groups = self._extensions(descriptor, scope)
        written.update(f"{scope}.{name}" for name in groups)
        elements += [
            self._message(each, scope) for name, each in nested.items() if name not in written
        ]
        elements += [_enum_of(each) for each in descriptor.enum_type]
        return elements + extensions

    def _field(self, field: Any, inner: Any, scope: str) -> ast.Field | ast.MapField | ProtoGroup:
        """Return a field; `inner` is its type if that is declared next to it."""
        options = _field_options(field)
        label = label_of(field, is_proto3=self._is_proto3)
        cardinality = None if label is None else ast.FieldCardinality[label.upper()]
        if inner is not None and inner.options.map_entry:
            key, value = map(_type_of, inner.field)
            return ast.MapField(field.name, field.number, key, value, options)
        if field.type == pb.FieldDescriptorProto.TYPE_GROUP:
            if inner is None:
                raise InvalidSchema(f"the group {field.name} is not declared where it is used")
            elements = self._elements(inner, f"{scope}.{inner.name}")
            return ProtoGroup(inner.name, field.number, cardinality, elements, options)
        return ast.Field(field.name, field.number, _type_of(field), cardinality, options)

    def _extensions(self, descriptor: Any, scope: str) -> tuple[list[ast.Extension], set[str]]:
        """Return the extensions in a file or message, and the groups among them."""
        is_file = descriptor is self._descriptor
        types = descriptor.message_type if is_file else descriptor.nested_type
        nested = {f"{scope}.{each.name}": each for each in types}
        made, groups = [], set()
        for field in descriptor.extension:
            part: Any = self._field(field, nested.get(field.type_name), scope)
            if isinstance(part, ProtoGroup):
                groups.add(part.name)
            made.append(ast.Extension(field.extendee, [part]))
        return made, groups


def _once(elements: list[Any]) -> list[Any]:
    """Return elements without those that already exist."""
    return list({id(element): element for element in elements}.values())


def _reserved_of(descriptor: Any, kind: Any, beyond: int, greatest: int) -> list[Any]:
    """Return the reserved parts; the ends of ranges are `beyond` the last number."""
    ranges = [
        _range_text(each.start, each.end - beyond, greatest) for each in descriptor.reserved_range
    ]
    made = [kind(ranges)] if ranges else []
    names = list(descriptor.reserved_name)
    return made + ([kind(names=names)] if names else [])


def _extension_ranges_of(descriptor: Any) -> list[ast.ExtensionRange]:
    return [
        ast.ExtensionRange(
            [_range_text(each.start, each.end - 1, _MAX_TAG)], _options_of(each.options)
        )
        for each in descriptor.extension_range
    ]


def _range_text(start: int, end: int, greatest: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= greatest else end}"


def _type_of(field: Any) -> str:
    """Return the type of a field; a descriptor may not say if it is a message or an enum."""
    scalar = SCALAR_NAMES.get(field.type) if field.HasField("type") else None
    return scalar or str(field.type_name)


def _field_options(field: Any) -> list[ast.Option]:
    """Return the options of a field, and what is written like an option."""
    made = []
    if field.HasField("default_value"):
        made.append(ast.Option("default", _default_of(field)))
    if field.json_name not in ("", _json_name(field.name)) and not field.extendee:
        made.append(ast.Option("json_name", field.json_name))
    return made + _options_of(field.options)


def _json_name(name: str) -> str:
    """Return the JSON name of a field by default."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _default_of(field: Any) -> Any:
    """Return the default of a field. For bytes, the descriptor already has the escapes."""
    default = field.default_value
    if isinstance(default, bytes):  # for a string only
        return Quoted("".join(f"\\{byte:03o}" for byte in default))
    if field.type == pb.FieldDescriptorProto.TYPE_BYTES:
        return Quoted(default)
    is_text = field.type == pb.FieldDescriptorProto.TYPE_STRING
    return default if is_text else ast.Identifier(default)


def _enum_of(descriptor: Any) -> ast.Enum:
    elements = _options_of(descriptor.options)
    elements += _reserved_of(descriptor, ast.EnumReserved, 0, _MAX_INT32)
    elements += [
        ast.EnumValue(each.name, each.number, _options_of(each.options))
        for each in descriptor.value
    ]
    return ast.Enum(descriptor.name, elements)


def _service_of(descriptor: Any) -> ast.Service:
    methods = [
        ast.Method(
            each.name,
            ast.MessageType(each.input_type, each.client_streaming),
            ast.MessageType(each.output_type, each.server_streaming),
            _options_of(each.options),
        )
        for each in descriptor.method
    ]
    return ast.Service(descriptor.name, [*_options_of(descriptor.options), *methods])


def _options_of(options: Any) -> list[Any]:
    """Return the options that are set. Raises `InvalidSchema` for undefined ones."""
    return [ast.Option(name, value) for name, value in _set_in(options, "({})")]


def _set_in(message: Any, extension: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that are set in a message, in the form of options."""
    unknowns: Any = UnknownFieldSet(message)
    for unknown in unknowns:
        number, kind = unknown.field_number, message.DESCRIPTOR.name
        raise InvalidSchema(f"field {number} of {kind} is defined in no file that is imported")
    for field, value in message.ListFields():
        if field.name == "uninterpreted_option":
            raise InvalidSchema("its options are not those of a compiled file")
        name = extension.format(field.full_name) if field.is_extension else field.name
        if field.type == FieldDescriptor.TYPE_GROUP:
            name = (
                extension.format(field.full_name) if field.is_extension else field.message_type.name
            )
        for each in _each(field, value):
            yield name, _value_of(field, each)


def _each(field: FieldDescriptor, value: Any) -> Iterable[Any]:
    """Return the values of a field, or the entries of a map."""
    if not field.is_repeated:
        return (value,)
    entry: Any = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return tuple(value)
    kind: Any = GetMessageClass(entry)
    made = []
    for key, value_at in value.items():
        made.append(kind(key=key))
        if entry.fields_by_name["value"].message_type is None:
            made[-1].value = value_at
        else:
            made[-1].value.CopyFrom(value_at)
    return made


def _value_of(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        parts = (ast.MessageLiteralField(*each) for each in _set_in(value, "[{}]"))
        return ast.MessageLiteral(list(parts))
    if field.enum_type is not None:
        value_descriptor = field.enum_type.values_by_number.get(value)
        return ast.Identifier(str(value) if value_descriptor is None else value_descriptor.name)
    if isinstance(value, bytes):
        return Quoted.of_bytes(value)
    if isinstance(value, bool | str):
        return value
    return ast.Identifier(repr(value))
