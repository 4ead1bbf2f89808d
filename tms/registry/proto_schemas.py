"""Protobuf schemas, syntax 2 and 3: parsed and found right, in the text that is kept, compared.

A text is parsed to a tree, and Protobuf's own library checks what protoc would make of it. Instead
of a text a client may send a descriptor, as base64. What is imported must be a reference's name, or
one of the files that come with Protobuf.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError
from proto_schema_parser import ast

from tms.registry.proto_descriptors import descriptor_of, file_of
from tms.registry.proto_differences import differences
from tms.registry.proto_options import proto_tags, retagged, without_extensions
from tms.registry.proto_text import proto_text
from tms.registry.proto_tree import tree_of
from tms.registry.proto_types import ProtoTypes, resolved, types_of
from tms.registry.questions import Incompatibility, InvalidSchema, Tagged, Tags
from tms.serdes.standard_protos import STANDARD_FILES

_OWN = "schema.proto"
"""The name of a file that has none."""


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """A schema that is right."""

    text: str
    """As it is kept."""
    normalized: str
    types: ProtoTypes
    serialized: str
    """Its descriptor, in base64."""
    file: ast.File

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of its first message."""
        if not self.types.own:
            return ()
        first = self.types.messages[self.types.own[0]]
        groups = first.fields, *first.oneofs.values()
        return tuple(field.name for fields in groups for field in fields.values())

    @property
    def without_extensions(self) -> str:
        """Its text without the options that authors define."""
        return proto_text(without_extensions(self.file))

    @property
    def tags(self) -> Tags:
        """The tags that are written in it."""
        return proto_tags(self.file)

    def tagged(self, wanted: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is not there."""
        return proto_text(retagged(self.file, wanted))


def _tree(text: str) -> ast.File:
    """Return the tree of a text, or of a descriptor in base64. Raises `InvalidSchema`."""
    try:
        return tree_of(text)
    except InvalidSchema:
        described = _described(text)
        if described is None:
            raise
        return described


def _described(text: str) -> ast.File | None:
    """Return the tree of a descriptor in base64; None if it is none."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
        return file_of(descriptor_pb2.FileDescriptorProto.FromString(raw))
    except (binascii.Error, ValueError, DecodeError, KeyError):
        return None


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> ProtoSchema:
    """Return the schema of a text, which may import `references`. Raises `InvalidSchema`."""
    try:
        file = _tree(text)
        if not file.file_elements:
            raise InvalidSchema("the file declares nothing")
        if file.edition is not None:
            raise InvalidSchema("editions are not known here: use syntax proto2 or proto3")
        named = [(name, _tree(each)) for name, each in references]
        descriptor = _checked(file, named)
        imported = [_standard_tree(name) for name in sorted(_imports(file) & STANDARD_FILES.keys())]
        types = types_of(file, [*imported, *(tree for _, tree in named)])
        normalized = proto_text(file, partial(resolved, types))
        serialized = base64.b64encode(descriptor).decode()
        return ProtoSchema(proto_text(file), normalized, types, serialized, file)
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchema(str(error)) from None


def _imports(file: ast.File) -> set[str]:
    return {each.name for each in file.file_elements if isinstance(each, ast.Import)}


def _checked(file: ast.File, named: Sequence[tuple[str, ast.File]]) -> bytes:
    """Return the descriptor of a file, all its names resolved.

    Raises `InvalidSchema` unless Protobuf's library takes the file and what it imports.
    """
    pool = descriptor_pool.DescriptorPool()
    own = _OWN
    while any(own == name for name, _ in named):
        own = f"_{own}"
    added: set[str] = {name for name, _ in named}
    for name, tree in (*named, (own, file)):
        for imported in sorted(_imports(tree) & STANDARD_FILES.keys()):
            _add_standard(pool, imported, added)
        try:
            pool.AddSerializedFile(descriptor_of(tree, name).SerializeToString())
        except TypeError as error:
            reason = str(error).rpartition("descriptor pool: ")[2]
            raise InvalidSchema(f"in {name}: {reason}") from None
    resolved_names = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(own).CopyToProto(resolved_names)
    return resolved_names.SerializeToString()


def _standard_tree(name: str) -> ast.File:
    return file_of(descriptor_pb2.FileDescriptorProto.FromString(STANDARD_FILES[name]))


def _add_standard(pool: descriptor_pool.DescriptorPool, name: str, added: set[str]) -> None:
    """Add a file that comes with Protobuf behind those that it imports, unless it is there."""
    if name in added:
        return
    added.add(name)
    raw = STANDARD_FILES[name]
    for imported in descriptor_pb2.FileDescriptorProto.FromString(raw).dependency:
        _add_standard(pool, imported, added)
    pool.AddSerializedFile(raw)


def incompatibilities(reader: ProtoSchema, writer: ProtoSchema) -> list[Incompatibility]:
    """Return why `reader` does not read all that `writer` has written; nothing if it does."""
    return differences(writer.types, reader.types)
