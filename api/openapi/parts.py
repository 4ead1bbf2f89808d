"""The parts of an OpenAPI document: media types with examples, parameters."""

import json
from collections.abc import Mapping
from typing import Any

from tms.core.limits import TTL_S_MAX
from tms.wire.json_fields import FILTER, Json

READ_POINTER = "1699999999999999999"
WRITE_POINTER = "1700000000000000000"
NEXT_POINTERS = ("1700000000000000001", "1700000000000000002")
TIMESTAMP = 1_700_000_000_000


def avro_media(schema: Json) -> Json:
    """Return the media type object of raw Avro of a schema."""
    text = json.dumps(schema)
    return {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": f"Raw Avro binary, without a container, of the schema `{text}`",
        }
    }


def arrow_media(columns: str) -> Json:
    """Return the media type object of an Arrow stream with columns."""
    return {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": f"An Arrow stream (IPC) with the columns {columns}",
        }
    }


def json_media(schema: Json, **examples: Any) -> Json:
    """Return the media type object of JSON of a schema, with examples by their names."""
    named = {name: {"value": value} for name, value in examples.items()}
    return {"schema": schema, "examples": named}


def json_content(schema: Json, **examples: Any) -> Json:
    """Return the content of a body that is always JSON."""
    return {"application/json": json_media(schema, **examples)}


TTL: Json = {
    "description": "The number of seconds after which a message expires.",
    "oneOf": [
        {"type": "integer", "minimum": 1, "maximum": TTL_S_MAX},
        {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
    ],
}


def parameter(
    name: str,
    description: str,
    schema: Json,
    *,
    place: str = "query",
    is_required: bool = False,
    **example: Any,
) -> Json:
    """Return a parameter of an operation, with its `example` if there is one."""
    required = {"required": True} if is_required else {}
    described = {"description": description, "schema": schema, **example}
    return {"name": name, "in": place, **required, **described}


FILTER_PARAMETER = parameter("filter", FILTER["description"], FILTER)


def query_choice(name: str, choices: tuple[str, ...], default: str, description: str) -> Json:
    """Return a query parameter that is one of several words."""
    return parameter(name, description, {"enum": list(choices), "default": default})


def query_flag(name: str, description: str, *, default: bool = False) -> Json:
    """Return a query parameter that is true or false."""
    return parameter(name, description, {"type": "boolean", "default": default})


def query_text(name: str, description: str, **schema: Any) -> Json:
    """Return a query parameter that is text, with further keywords of its schema."""
    return parameter(name, description, {"type": "string", **schema})


def query_wait(description: str) -> Json:
    """Return the query parameter for the number of seconds to wait."""
    return parameter("wait", description, {"type": "number", "minimum": 0}, example=5)


def component_of(name: str) -> str:
    """Return the name of the component of a path's parameter, which must not be a schema's name."""
    return f"{name}_in_path"


def path_parameters(described: Mapping[str, Json]) -> Json:
    """Return the parameters of paths by the names of their components."""
    return {
        component_of(name): {"name": name, "in": "path", "required": True, **each}
        for name, each in described.items()
    }
