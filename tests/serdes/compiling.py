"""Serdes for the schemas that tests contain."""

import base64
import json
from typing import Any

from tests.registry import protoc
from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.serdes.avro_serde import AvroSerde
from tms.serdes.json_serde import JsonSerde
from tms.serdes.proto_serde import ProtoSerde
from tms.serdes.serde import SchemaSource

References = tuple[tuple[str, str], ...]


def avro(schema: Any) -> AvroSerde:
    """Return the serde of an Avro schema, in JSON."""
    return AvroSerde(SchemaSource(AVRO, json.dumps(schema)))


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return an Avro record; a field is its type, or a type with a default."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": each, "type": kind[0], "default": kind[1]}
            if isinstance(kind, tuple)
            else {"name": each, "type": kind}
            for each, kind in fields.items()
        ],
    }


def json_schema(schema: Any, references: References = ()) -> JsonSerde:
    """Return the serde of a JSON Schema."""
    return JsonSerde(SchemaSource(JSON, json.dumps(schema), references))


def descriptor(text: str) -> str:
    """Return the descriptor that protoc makes of a file, in the registry's form."""
    made = protoc.described(text)
    assert made is not None, text
    return base64.b64encode(made.SerializeToString()).decode()


def proto(text: str, references: References = (), message: str = "") -> ProtoSerde:
    """Return the serde of a Protobuf file."""
    return ProtoSerde(SchemaSource(PROTOBUF, descriptor(text), references), message)
