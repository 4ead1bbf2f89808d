"""The messages and enums of a Protobuf file, by their names, from the tree of its parser. Pure.

A name in a field means the nearest type of that name: of the message itself, of those around it, of
the package, of the packages around that. With a dot in front it is the whole name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from proto_schema_parser import ast

SCALARS = frozenset(
    (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
)
MAP = "map"


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message."""

    name: str
    tag: int
    type: str
    """A scalar's name, the whole name of a message or enum, or `map`."""
    label: str | None = None
    """`required`, `optional` or `repeated`, if it is written."""
    key: str = ""
    """Of a map: the type of its keys."""
    value: str = ""
    """Of a map: the type of its values."""


@dataclass(slots=True)
class ProtoMessage:
    """A message."""

    name: str
    """With the package and the messages around it."""
    fields: dict[int, ProtoField] = field(default_factory=dict)
    """By tag those that are in no oneof."""
    oneofs: dict[str, dict[int, ProtoField]] = field(default_factory=dict)
    """By name the fields of each oneof."""


@dataclass(slots=True)
class ProtoTypes:
    """The types of a file and of those that it imports."""

    package: str = ""
    own: list[str] = field(default_factory=list)
    """The names of the file's own messages, in order."""
    messages: dict[str, ProtoMessage] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    """What fields name, and is nowhere."""

    def without_package(self, name: str) -> str:
        """Return the name of an own type within its package."""
        return name.removeprefix(f"{self.package}.") if self.package else name


def types_of(file: ast.File, imported: Sequence[ast.File] = ()) -> ProtoTypes:
    """Return the types of a file, which may use those of `imported`."""
    types = ProtoTypes(package_of(file))
    declared = [(each, _declared(each)) for each in (*imported, file)]
    for each, messages in declared:
        types.enums.update(_enums(each))
        types.messages.update({name: ProtoMessage(name) for name, _ in messages})
    for each, messages in declared:
        for name, message in messages:
            _fill(types, name, message)
            if each is file:
                types.own.append(name)
    return types


def package_of(file: ast.File) -> str:
    """Return the package of a file; "" if it names none."""
    return next((each.name for each in file.file_elements if isinstance(each, ast.Package)), "")


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _declared(file: ast.File) -> list[tuple[str, ast.Message | ast.Group]]:
    """Return the messages of a file with their whole names, an outer one before its inner ones."""
    return list(_messages(file.file_elements, package_of(file)))


def _messages(
    elements: Sequence[object], scope: str
) -> Iterator[tuple[str, ast.Message | ast.Group]]:
    for each in elements:
        if isinstance(each, ast.Message | ast.Group):
            name = _joined(scope, each.name)
            yield name, each
            yield from _messages(each.elements, name)
        elif isinstance(each, ast.OneOf):
            yield from _messages(each.elements, scope)


def _enums(file: ast.File) -> Iterator[str]:
    scopes: list[tuple[str, Sequence[object]]] = [(package_of(file), file.file_elements)]
    scopes += [(name, message.elements) for name, message in _declared(file)]
    for scope, elements in scopes:
        yield from (_joined(scope, each.name) for each in elements if isinstance(each, ast.Enum))


def _fill(types: ProtoTypes, name: str, declared: ast.Message | ast.Group) -> None:
    message = types.messages[name]
    for each in declared.elements:
        if isinstance(each, ast.OneOf):
            inner = (_field(types, name, part) for part in each.elements)
            message.oneofs[each.name] = {found.tag: found for found in inner if found is not None}
        else:
            found = _field(types, name, each)
            if found is not None:
                message.fields[found.tag] = found


def _field(types: ProtoTypes, scope: str, element: object) -> ProtoField | None:
    if isinstance(element, ast.MapField):
        key, value = (
            resolved(types, scope, each) for each in (element.key_type, element.value_type)
        )
        return ProtoField(element.name, int(element.number), MAP, key=key, value=value)
    if isinstance(element, ast.Group):
        name = _joined(scope, element.name)
        return ProtoField(element.name, int(element.number), name, _label(element.cardinality))
    if isinstance(element, ast.Field):
        kind = resolved(types, scope, element.type)
        return ProtoField(element.name, int(element.number), kind, _label(element.cardinality))
    return None


def _label(cardinality: ast.FieldCardinality | None) -> str | None:
    return None if cardinality is None else cardinality.value.lower()


def resolved(types: ProtoTypes, scope: str, name: str) -> str:
    """Return the whole name of a type."""
    if name in SCALARS:
        return name
    known: Mapping[str, object] | set[str]
    for candidate in _candidates(scope, name):
        for known in (types.messages, types.enums):
            if candidate in known:
                return candidate
    types.unknown.append(name)
    return name.removeprefix(".")


def _candidates(scope: str, name: str) -> Iterator[str]:
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name
