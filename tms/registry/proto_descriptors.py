"""Protobuf files as descriptors, as protoc makes them of a text, and as the tree of a text again.

A descriptor is what Protobuf's library checks (`proto_schemas`), and what some clients send instead
of a text. Options do not bear on whether a file is right, so they are left out of it. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from proto_schema_parser import ast

from tms.registry.proto_tree import Quoted
from tms.registry.proto_types import SCALARS, package_of

_MAX_TAG = 536_870_912
_MAX_INT32 = 2_147_483_647
_FIELD = pb.FieldDescriptorProto
_LABELS = {
    ast.FieldCardinality.OPTIONAL: _FIELD.LABEL_OPTIONAL,
    ast.FieldCardinality.REQUIRED: _FIELD.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: _FIELD.LABEL_REPEATED,
}
_CARDINALITIES = {label: cardinality for cardinality, label in _LABELS.items()}
_SCALAR_TYPES = {name: _FIELD.Type.Value(f"TYPE_{name.upper()}") for name in SCALARS}
_SCALAR_NAMES = {number: name for name, number in _SCALAR_TYPES.items()}
_PROTO3 = "proto3"


def _of(elements: Iterable[object], *kinds: type) -> list[Any]:
    return [each for each in elements if isinstance(each, kinds)]


# From a tree to a descriptor.


def descriptor_of(file: ast.File, name: str) -> pb.FileDescriptorProto:
    """Return the descriptor of a file of this name. Raises `ValueError` for what can be none."""
    elements = file.file_elements
    made = pb.FileDescriptorProto(name=name, package=package_of(file))
    if file.syntax is not None:
        made.syntax = file.syntax
    for each in _of(elements, ast.Import):
        if each.public:
            made.public_dependency.append(len(made.dependency))
        made.dependency.append(each.name)
    is_proto3 = file.syntax == _PROTO3
    for each in _of(elements, ast.Message):
        _message(made.message_type.add(), each.name, each.elements, is_proto3=is_proto3)
    for each in _of(elements, ast.Enum):
        _enum(made.enum_type.add(), each)
    for each in _of(elements, ast.Extension):
        _extension(made.extension, made.message_type, each, is_proto3=is_proto3)
    for each in _of(elements, ast.Service):
        service = made.service.add(name=each.name)
        for method in _of(each.elements, ast.Method):
            service.method.add(
                name=method.name,
                input_type=method.input_type.type,
                output_type=method.output_type.type,
                client_streaming=method.input_type.stream,
                server_streaming=method.output_type.stream,
            )
    return made


def _message(made: pb.DescriptorProto, name: str, elements: list[Any], *, is_proto3: bool) -> None:
    made.name = name
    for each in elements:
        if isinstance(each, ast.OneOf):
            index = len(made.oneof_decl)
            made.oneof_decl.add(name=each.name)
            for part in _of(each.elements, ast.Field, ast.Group):
                field = made.field.add(oneof_index=index)
                _field(field, made.nested_type, part, is_proto3=is_proto3)
        elif isinstance(each, ast.Field | ast.MapField | ast.Group):
            _field(made.field.add(), made.nested_type, each, is_proto3=is_proto3)
        elif isinstance(each, ast.Message):
            _message(made.nested_type.add(), each.name, each.elements, is_proto3=is_proto3)
        elif isinstance(each, ast.Enum):
            _enum(made.enum_type.add(), each)
        elif isinstance(each, ast.Extension):
            _extension(made.extension, made.nested_type, each, is_proto3=is_proto3)
    _ranges(made, elements)
    for field in made.field:
        if field.proto3_optional and not field.HasField("oneof_index"):
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")


def _ranges(made: pb.DescriptorProto, elements: list[Any]) -> None:
    """Add what is reserved, and what is for extensions."""
    for each in _of(elements, ast.ExtensionRange):
        for start, end in map(_range, each.ranges):
            made.extension_range.add(start=start, end=min(end + 1, _MAX_TAG))
    for each in _of(elements, ast.Reserved):
        made.reserved_name.extend(each.names)
        for start, end in map(_range, each.ranges):
            made.reserved_range.add(start=start, end=min(end + 1, _MAX_TAG))


def _range(text: str, greatest: int = _MAX_TAG) -> tuple[int, int]:
    """Return the first and the last number of a range."""
    start, _, end = text.partition(" to ")
    return int(start, 0), greatest if end.strip() == "max" else int(end or start, 0)


def _field(made: pb.FieldDescriptorProto, nested: Any, field: Any, *, is_proto3: bool) -> None:
    made.name, made.number = field.name, int(field.number)
    if isinstance(field, ast.MapField):
        entry = nested.add(name=f"{_camel(field.name)}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate(
            (("key", field.key_type), ("value", field.value_type)), 1
        ):
            part = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            _set_type(part, kind)
        made.label = _FIELD.LABEL_REPEATED
        made.type_name = entry.name
        return
    made.label = _LABELS[field.cardinality or ast.FieldCardinality.OPTIONAL]
    if isinstance(field, ast.Group):
        _message(nested.add(), field.name, field.elements, is_proto3=is_proto3)
        made.name, made.type = field.name.lower(), _FIELD.TYPE_GROUP
        made.type_name = field.name
        return
    made.proto3_optional = is_proto3 and field.cardinality is ast.FieldCardinality.OPTIONAL
    _set_type(made, field.type)


def _set_type(made: pb.FieldDescriptorProto, name: str) -> None:
    """Set a field's type. Whether a name is a message's or an enum's, the library finds out."""
    if name in SCALARS:
        made.type = _SCALAR_TYPES[name]
    else:
        made.type_name = name


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _enum(made: pb.EnumDescriptorProto, enum: ast.Enum) -> None:
    made.name = enum.name
    for each in enum.elements:
        if isinstance(each, ast.EnumValue):
            made.value.add(name=each.name, number=int(each.number))
        elif isinstance(each, ast.Option) and each.name == "allow_alias":
            made.options.allow_alias = each.value is True
        elif isinstance(each, ast.EnumReserved):
            made.reserved_name.extend(each.names)
            for text in each.ranges:
                start, end = _range(text, _MAX_INT32)
                made.reserved_range.add(start=start, end=end)


def _extension(made: Any, nested: Any, extension: ast.Extension, *, is_proto3: bool) -> None:
    for each in _of(extension.elements, ast.Field, ast.Group):
        field = made.add(extendee=extension.typeName)
        _field(field, nested, each, is_proto3=is_proto3)
        field.proto3_optional = False


# From a descriptor to a tree.


def file_of(descriptor: pb.FileDescriptorProto) -> ast.File:
    """Return the tree of a descriptor's file."""
    public = set(descriptor.public_dependency)
    is_proto3 = descriptor.syntax == _PROTO3
    elements: list[Any] = []
    if descriptor.package:
        elements.append(ast.Package(descriptor.package))
    elements += [
        ast.Import(name, public=number in public)
        for number, name in enumerate(descriptor.dependency)
    ]
    elements += _options_of(descriptor.options)
    elements += [_message_of(each, is_proto3=is_proto3) for each in descriptor.message_type]
    elements += [_enum_of(each) for each in descriptor.enum_type]
    elements += [
        ast.Extension(each.extendee, [_plain_field_of(each, is_proto3=is_proto3)])
        for each in descriptor.extension
    ]
    elements += [
        ast.Service(each.name, [_method_of(method) for method in each.method])
        for each in descriptor.service
    ]
    return ast.File(syntax=descriptor.syntax or "proto2", file_elements=elements)


def _message_of(descriptor: pb.DescriptorProto, *, is_proto3: bool) -> ast.Message:
    entries = {each.name: each for each in descriptor.nested_type if each.options.map_entry}
    elements: list[Any] = []
    if descriptor.reserved_range:
        elements.append(
            ast.Reserved([_told(r.start, r.end - 1) for r in descriptor.reserved_range])
        )
    if descriptor.reserved_name:
        elements.append(ast.Reserved(names=list(descriptor.reserved_name)))
    elements += _options_of(descriptor.options)
    oneofs = [ast.OneOf(each.name) for each in descriptor.oneof_decl]
    for field in descriptor.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            part = _plain_field_of(field, is_proto3=is_proto3)
            oneofs[field.oneof_index].elements.append(part)
        else:
            elements.append(_field_of(field, entries, is_proto3=is_proto3))
    elements += [each for each in oneofs if each.elements]
    elements += [
        ast.ExtensionRange([_told(r.start, r.end - 1)]) for r in descriptor.extension_range
    ]
    elements += [
        _message_of(each, is_proto3=is_proto3)
        for each in descriptor.nested_type
        if each.name not in entries
    ]
    elements += [_enum_of(each) for each in descriptor.enum_type]
    return ast.Message(descriptor.name, elements)


def _told(start: int, end: int, greatest: int = _MAX_TAG - 1) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= greatest else end}"


def _field_of(
    field: pb.FieldDescriptorProto, entries: dict[str, pb.DescriptorProto], *, is_proto3: bool
) -> ast.Field | ast.MapField:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is None:
        return _plain_field_of(field, is_proto3=is_proto3)
    key, value = (_type_of(part) for part in entry.field)
    return ast.MapField(field.name, field.number, key, value, list(_field_options(field)))


def _plain_field_of(field: pb.FieldDescriptorProto, *, is_proto3: bool) -> ast.Field:
    is_plain = field.label == _FIELD.LABEL_OPTIONAL and is_proto3 and not field.proto3_optional
    in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    cardinality = None if is_plain or in_oneof else _CARDINALITIES[field.label]
    options = list(_field_options(field))
    return ast.Field(field.name, field.number, _type_of(field), cardinality, options)


def _type_of(field: pb.FieldDescriptorProto) -> str:
    return _SCALAR_NAMES.get(field.type) or field.type_name


def _field_options(field: pb.FieldDescriptorProto) -> Iterator[ast.Option]:
    if field.HasField("default_value"):
        yield ast.Option("default", _default_of(field))
    yield from _options_of(field.options)


def _default_of(field: pb.FieldDescriptorProto) -> Any:
    """Return the default of a field. That of bytes has its escapes in the descriptor already."""
    given = field.default_value
    if field.type == _FIELD.TYPE_BYTES:
        return Quoted(given)
    return given if field.type == _FIELD.TYPE_STRING else ast.Identifier(given)


def _enum_of(descriptor: pb.EnumDescriptorProto) -> ast.Enum:
    elements: list[Any] = list(_options_of(descriptor.options))
    if descriptor.reserved_range:
        ranges = [_told(r.start, r.end, _MAX_INT32) for r in descriptor.reserved_range]
        elements.append(ast.EnumReserved(ranges))
    if descriptor.reserved_name:
        elements.append(ast.EnumReserved(names=list(descriptor.reserved_name)))
    elements += [
        ast.EnumValue(each.name, each.number, list(_options_of(each.options)))
        for each in descriptor.value
    ]
    return ast.Enum(descriptor.name, elements)


def _method_of(method: pb.MethodDescriptorProto) -> ast.Method:
    return ast.Method(
        method.name,
        ast.MessageType(method.input_type, method.client_streaming),
        ast.MessageType(method.output_type, method.server_streaming),
        list(_options_of(method.options)),
    )


def _options_of(options: Any) -> list[ast.Option]:
    """Return the options that are set and that Protobuf itself knows."""
    made = []
    for field, value in options.ListFields():
        if field.message_type is not None or field.is_extension:
            continue
        for each in value if field.is_repeated else (value,):
            names = None if field.enum_type is None else field.enum_type.values_by_number
            given = each if names is None else ast.Identifier(names[each].name)
            made.append(ast.Option(field.name, given))
    return made
