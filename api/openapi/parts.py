"""What the JSON schemas of REST's bodies are made of, and the form of a body with examples."""

import json
from typing import Any

from tms.core.limits import LIMIT_MAX, TTL_S_MAX

Json = dict[str, Any]

INT64_MAX = 2**63 - 1
UINT16_MAX = 2**16 - 1
WRITE_POINTER = 1_700_000_000_000_000_000
TIMESTAMP = 1_700_000_000_000
ID = "0000018bcfe568000000" + "0" * 20


def avro_media(schema: Json) -> Json:
    """Return the media type object of raw Avro of a schema."""
    told = json.dumps(schema)
    return {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": f"Raw Avro binary, without a container, of the schema `{told}`",
        }
    }


def arrow_media(columns: str) -> Json:
    """Return the media type object of a stream of Arrow's with columns."""
    return {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": f"A stream of Arrow's (IPC) with the columns {columns}",
        }
    }


def json_media(schema: Json, **examples: Any) -> Json:
    """Return the media type object of JSON of a schema, with examples by their names."""
    named = {name: {"value": value} for name, value in examples.items()}
    return {"schema": schema, "examples": named}


def reference(name: str) -> Json:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(required: tuple[str, ...], properties: Json, description: str | None = None) -> Json:
    """Return the schema of an object that has these properties and no other."""
    schema: Json = {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }
    return schema if description is None else {**schema, "description": description}


def tagged(tag: str, schema: Json) -> Json:
    """Return the schema of Avro's tagged form of a union's branch."""
    return record((tag,), {tag: schema})


TEXT: Json = {"type": "string"}
BASE64_TEXT: Json = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
MESSAGE_ID: Json = {
    "type": "string",
    "description": "20 bytes as hexadecimal digits: when and as which one it was published.",
    "pattern": "^[0-7][0-9a-fA-F]{19}[0-7][0-9a-fA-F]{19}$",
    "examples": [ID],
}
POINTER: Json = {
    "type": "integer",
    "format": "int64",
    "minimum": 1,
    "maximum": INT64_MAX,
    "description": "A transaction's write pointer: its start in milliseconds x 1000000.",
}
TIME: Json = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX - 1}
SEQUENCE: Json = {"type": "integer", "minimum": 0, "maximum": UINT16_MAX}
LIMIT: Json = {"type": "integer", "format": "int32", "minimum": 1, "maximum": LIMIT_MAX}
TTL: Json = {
    "description": "Seconds after which a message is no longer given.",
    "oneOf": [
        {"type": "integer", "minimum": 1, "maximum": TTL_S_MAX},
        {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
    ],
}
NULL: Json = {"type": "null"}


def nullable(schema: Json) -> Json:
    """Return the schema of something or null."""
    return {"oneOf": [schema, NULL]}


def query_choice(name: str, choices: tuple[str, ...], default: str, description: str) -> Json:
    """Return the query parameter that is one of several words."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"enum": list(choices), "default": default},
    }
