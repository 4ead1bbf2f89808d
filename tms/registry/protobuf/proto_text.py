"""The text in which the registry stores a Protobuf schema, in the layout of Square's Wire. Pure.

Comments are dropped. Imports come before options, messages before enums; within a message, the
order is reserved parts, options, fields, oneofs, groups, extensions and nested types, each after an
empty line. In normalized text, fields and options are sorted, and types have their full names.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from proto_schema_parser import ast

from tms.registry.protobuf.proto_tree import Quoted
from tms.registry.protobuf.proto_types import SCALARS

_INDENT = "  "
Meant = Callable[[str, str], str]
"""Returns the full name of a type's name within a scope."""


def proto_text(file: ast.File, resolve: Meant | None = None) -> str:
    """Return the text of a file; normalized if `resolve` is given, which resolves names."""
    return _Printer(resolve).file(file)


def _of(elements: Iterable[object], *kinds: type) -> list[Any]:
    return [element for element in elements if isinstance(element, kinds)]


def _indented(text: str) -> str:
    """Return lines indented one level, empty ones too."""
    return "".join(f"{_INDENT}{line}\n" for line in text.removesuffix("\n").split("\n"))


def _groups(groups: Iterable[Sequence[str]]) -> str:
    """Return groups of texts, each after a newline."""
    return "".join(f"\n{''.join(group)}" for group in groups if group)


class _Printer:
    def __init__(self, resolve: Meant | None) -> None:
        self._meant = resolve

    @property
    def _is_normalized(self) -> bool:
        return self._meant is not None

    def file(self, file: ast.File) -> str:
        """Return the text of a file."""
        elements = file.file_elements
        package = next((each.name for each in _of(elements, ast.Package)), "")
        syntax = file.syntax if not (self._is_normalized and file.syntax == "proto2") else None
        head = f'syntax = "{syntax}";\n' if syntax else ""
        if package:
            head += f"package {package};\n"
        imports = _of(elements, ast.Import)
        plain = [each for each in imports if not each.public]
        public = [each for each in imports if each.public]
        if self._is_normalized:
            plain.sort(key=lambda each: each.name)
            public.sort(key=lambda each: each.name)
        groups = [
            [
                *(f'import "{each.name}";\n' for each in plain),
                *(f'import public "{each.name}";\n' for each in public),
            ],
            self._options(elements),
            [
                *(self._message(each, package) for each in _of(elements, ast.Message)),
                *(self._enum(each) for each in _of(elements, ast.Enum)),
            ],
            [self._extension(each, package) for each in _of(elements, ast.Extension)],
            [self._service(each, package) for each in _of(elements, ast.Service)],
        ]
        return head + _groups(groups)

    def _options(self, elements: Iterable[object]) -> list[str]:
        options = _of(elements, ast.Option)
        if self._is_normalized:
            options.sort(key=lambda each: each.name)
        return [f"option {each.name} = {_value(each.value)};\n" for each in options]

    def _message(self, message: ast.Message, scope: str) -> str:
        name = f"{scope}.{message.name}" if scope else message.name
        elements = message.elements
        groups = [
            [text for each in _of(elements, ast.Reserved) for text in self._reserved(each)],
            self._options(elements),
            self._fields(_of(elements, ast.Field, ast.MapField), name),
            [self._oneof(each, name) for each in _of(elements, ast.OneOf)],
            self._fields(_of(elements, ast.Group), name),
            [self._extension(each, name) for each in _of(elements, ast.Extension)],
            [self._extensions(each) for each in _of(elements, ast.ExtensionRange)],
            [
                *(self._message(each, name) for each in _of(elements, ast.Message)),
                *(self._enum(each) for each in _of(elements, ast.Enum)),
            ],
        ]
        inner = _groups([_indented(each) for each in group] for group in groups)
        return f"message {message.name} {{{inner}}}\n"

    def _fields(self, fields: list[Any], scope: str) -> list[str]:
        if self._is_normalized:
            fields.sort(key=lambda each: int(each.number))
        return [self._field(each, scope) for each in fields]

    def _field(self, field: ast.Field | ast.MapField | ast.Group, scope: str) -> str:
        if isinstance(field, ast.Group):
            inner = self._message(ast.Message(field.name, field.elements), scope)
            start = f"{_label(field.cardinality)}group {field.name} = {field.number}"
            options = self._compact(getattr(field, "options", []))
            return f"{start}{options} " + inner.removeprefix(f"message {field.name} ")
        if isinstance(field, ast.MapField):
            value = self._type(field.value_type, scope)
            start = f"map<{field.key_type}, {value}> {field.name}"
        else:
            start = f"{_label(field.cardinality)}{self._type(field.type, scope)} {field.name}"
        return f"{start} = {field.number}{self._compact(field.options)};\n"

    def _type(self, name: str, scope: str) -> str:
        if self._meant is None or name in SCALARS:
            return name
        return f".{self._meant(scope, name)}"

    def _compact(self, options: list[ast.Option]) -> str:
        """Return the options after a field or a value; several are on lines of their own."""
        if not options:
            return ""
        ordered = sorted(options, key=lambda each: each.name) if self._is_normalized else options
        texts = [f"{each.name} = {_value(each.value)}" for each in ordered]
        if len(texts) == 1:
            return f" [{texts[0]}]"
        lines = [f"{text}," for text in texts[:-1]] + texts[-1:]
        return " [\n" + "".join(_indented(line) for line in lines) + "]"

    def _oneof(self, oneof: ast.OneOf, scope: str) -> str:
        groups = [
            self._options(oneof.elements),
            self._fields(_of(oneof.elements, ast.Field), scope),
            self._fields(_of(oneof.elements, ast.Group), scope),
        ]
        inner = _groups([_indented(each) for each in group] for group in groups)
        return f"oneof {oneof.name} {{{inner}}}\n"

    def _enum(self, enum: ast.Enum) -> str:
        values = _of(enum.elements, ast.EnumValue)
        if self._is_normalized:
            # The first value is the default, whatever its number.
            values[1:] = sorted(values[1:], key=lambda each: int(each.number))
        groups = [
            [
                text
                for each in _of(enum.elements, ast.EnumReserved)
                for text in self._reserved(each)
            ],
            [
                *self._options(enum.elements),
                *(f"{e.name} = {e.number}{self._compact(e.options)};\n" for e in values),
            ],
        ]
        inner = _groups([_indented(each) for each in group] for group in groups)
        return f"enum {enum.name} {{{inner}}}\n"

    def _reserved(self, reserved: ast.Reserved | ast.EnumReserved) -> list[str]:
        parts = [*reserved.ranges, *(f'"{name}"' for name in reserved.names)]
        if self._is_normalized:
            return [f"reserved {part};\n" for part in parts]
        return [f"reserved {', '.join(parts)};\n"]

    def _extensions(self, extensions: ast.ExtensionRange) -> str:
        return f"extensions {', '.join(extensions.ranges)}{self._compact(extensions.options)};\n"

    def _extension(self, extension: ast.Extension, scope: str) -> str:
        fields = self._fields(_of(extension.elements, ast.Field, ast.Group), scope)
        inner = _groups([[_indented(field) for field in fields]])
        return f"extend {self._type(extension.typeName, scope)} {{{inner}}}\n"

    def _service(self, service: ast.Service, scope: str) -> str:
        groups = [
            self._options(service.elements),
            [self._method(each, scope) for each in _of(service.elements, ast.Method)],
        ]
        inner = _groups([_indented(each) for each in group] for group in groups)
        return f"service {service.name} {{{inner}}}\n"

    def _method(self, method: ast.Method, scope: str) -> str:
        taken, types = (
            f"({'stream ' if each.stream else ''}{self._type(each.type, scope)})"
            for each in (method.input_type, method.output_type)
        )
        start = f"rpc {method.name} {taken} returns {types}"
        options = self._options(method.elements)
        if not options:
            return f"{start};\n"
        return f"{start} {{\n{''.join(_indented(option) for option in options)}}};\n"


def _label(cardinality: ast.FieldCardinality | None) -> str:
    return "" if cardinality is None else f"{cardinality.value.lower()} "


def _value(value: Any) -> str:
    """Return the value of an option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = Quoted.holding(value)
    if isinstance(value, Quoted):
        return f'"{value.raw}"'
    if isinstance(value, list):
        return f"[\n{_listed([_value(each) for each in value])}]"
    if isinstance(value, ast.MessageLiteral):
        fields = _of(value.elements, ast.MessageLiteralField)
        return f"{{\n{_listed([f'{field.name}: {_value(field.value)}' for field in fields])}}}"
    return value.name if isinstance(value, ast.Identifier) else str(value)


def _listed(texts: list[str]) -> str:
    """Return texts on lines of their own, separated by commas."""
    return "".join(_indented(f"{text},") for text in texts[:-1]) + "".join(
        _indented(text) for text in texts[-1:]
    )
