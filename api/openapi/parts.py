"""What the OpenAPI document is made of: media types with examples, parameters."""

import json
from typing import Any

from tms.core.limits import TTL_S_MAX
from tms.wire.json_fields import Json

READ_POINTER = "1699999999999999999"
WRITE_POINTER = "1700000000000000000"
NEXT_POINTERS = ("1700000000000000001", "1700000000000000002")
TIMESTAMP = 1_700_000_000_000


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


TTL: Json = {
    "description": "The number of seconds after which a message expires.",
    "oneOf": [
        {"type": "integer", "minimum": 1, "maximum": TTL_S_MAX},
        {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
    ],
}


def query_choice(name: str, choices: tuple[str, ...], default: str, description: str) -> Json:
    """Return the query parameter that is one of several words."""
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"enum": list(choices), "default": default},
    }
