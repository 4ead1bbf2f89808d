"""The file of a Protobuf class as a schema, whose imports are references.

As in Confluent's serializers, a file is registered under the name by which it is imported.
"""

import base64
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

from tms.core.services.records import SchemaText
from tms.core.services.schemas import AsyncSchemas, SchemaReference
from tms.core.values.schema_types import PROTOBUF
from tms.serdes.standard_protos import STANDARD_FILES


async def registered_file(
    schemas: AsyncSchemas, message: type[Message], *, register: bool
) -> SchemaText:
    """Return the schema of a class's file, after finding or registering its imports."""
    file: Any = message.DESCRIPTOR.file
    references = await _references(schemas, file, register=register)
    return SchemaText(_text(file), PROTOBUF, references, message.DESCRIPTOR.full_name)


async def _references(
    schemas: AsyncSchemas, file: FileDescriptor, *, register: bool
) -> tuple[SchemaReference, ...]:
    put = schemas.register if register else schemas.find
    imported = []
    for dependency in file.dependencies:
        if dependency.name in STANDARD_FILES:
            continue
        references = await _references(schemas, dependency, register=register)
        version = await put(dependency.name, _text(dependency), PROTOBUF, references)
        imported.append(SchemaReference(dependency.name, dependency.name, version.version))
    return tuple(imported)


def _text(file: FileDescriptor) -> str:
    return base64.b64encode(file.serialized_pb).decode()
