"""Protobuf schemas, syntax 2 and 3: their validity, decided by protoc, stored text, and comparison.

The stored text is written from the tree of the submitted one. Instead of a text, a client may send
a descriptor in base64. Imports must be names of references, or standard files.
"""

import base64
import binascii
from collections.abc import Sequence
from functools import cached_property, partial

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.text_encoding import CEscape
from proto_schema_parser import ast

from tms.registry.protobuf.proto_compiler import compiled
from tms.registry.protobuf.proto_descriptors import file_of, with_options
from tms.registry.protobuf.proto_differences import differences
from tms.registry.protobuf.proto_options import proto_tags, retagged, without_extensions
from tms.registry.protobuf.proto_text import proto_text
from tms.registry.protobuf.proto_tree import tree_of
from tms.registry.protobuf.proto_types import ProtoTypes, resolved, types_of
from tms.registry.questions.questions import Incompatibility, InvalidSchema, Tagged, Tags

_EDITIONS = "editions"


class ProtoSchema:
    """A valid schema. Its parts are computed on first use."""

    def __init__(self, source: str, files: Sequence[FileDescriptorProto]) -> None:
        """Represent a text, which protoc compiled to the last descriptor of `files`."""
        self._source = source
        self._files = tuple(files)  # Protoc's own sequence cannot be pickled.

    @property
    def problem_if_normalized(self) -> str:
        """Nothing: normalized schemas may have the same content as others."""
        return ""

    @cached_property
    def types(self) -> ProtoTypes:
        """Its messages and enums, and those of its imports."""
        return types_of(self._files)

    @cached_property
    def file(self) -> ast.File:
        """Its tree."""
        try:
            return tree_of(self._source)
        except (InvalidSchema, ValueError):
            # protoc accepts more than the parser; the text is then that of the descriptor.
            *imported, own = self._files
            return file_of(with_options(own.SerializeToString(), imported))

    @cached_property
    def text(self) -> str:
        """The stored text."""
        return proto_text(self.file)

    @cached_property
    def normalized(self) -> str:
        """The text in canonical order, with full names."""
        return proto_text(self.file, partial(resolved, self.types))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of its first message."""
        if not self.types.own:
            return ()
        first = self.types.messages[self.types.own[0]]
        groups = first.fields, *first.oneofs.values()
        return tuple(field.name for fields in groups for field in fields.values())

    def in_form(self, form: str) -> str:
        """Return its descriptor in base64, or its text without custom options."""
        if form == "serialized":
            return base64.b64encode(self._files[-1].SerializeToString()).decode()
        return proto_text(without_extensions(self.file))

    @property
    def tags(self) -> Tags:
        """The tags in the schema."""
        return proto_tags(self.file)

    def tagged(self, change: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is missing."""
        return proto_text(retagged(self.file, change))

    def incompatibilities(self, writer: "ProtoSchema") -> list[Incompatibility]:
        """Return why it cannot read the data of `writer`; empty if it can."""
        return differences(writer.types, self.types)


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> ProtoSchema:
    """Return the schema of a text, which may import `references`. Raises `InvalidSchema`."""
    others: dict[str, str] = {}
    for name, each in references:
        others[name] = _text_of(each, others)
    source = _text_of(text, others)
    files = compiled(source, others).file
    own = files[-1]
    if own.syntax == _EDITIONS:
        raise InvalidSchema("editions are not known here: use syntax proto2 or proto3")
    if not _declares(own):
        raise InvalidSchema("the file declares nothing")
    return ProtoSchema(source, files)


def _declares(file: FileDescriptorProto) -> bool:
    """Whether a file has anything except its syntax."""
    return any(field.name not in ("name", "syntax") for field, _ in file.ListFields())


def _text_of(text: str, others: dict[str, str]) -> str:
    """Return a text; for a descriptor in base64, the equivalent text."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
        descriptor = FileDescriptorProto.FromString(raw)
    except (binascii.Error, ValueError, DecodeError):
        return text
    if not raw:
        return text
    imports = "".join(f'import "{CEscape(name.encode(), True)}";' for name in descriptor.dependency)
    imported = compiled(f'syntax = "proto3";{imports}', others).file[:-1]
    return proto_text(file_of(with_options(raw, imported)))
