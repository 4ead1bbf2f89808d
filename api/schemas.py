"""The bodies of REST as JSON schemas with examples, for the OpenAPI document.

The Avro schemas are `tms.wire`'s own, told in the description of each Avro body. Examples are
requests that work as they stand, and answers as the server gives them.
"""

import json
from typing import Any

from tms.core.limits import LIMIT_MAX, TTL_S_MAX
from tms.wire import avro_bodies

Json = dict[str, Any]

_INT64_MAX = 2**63 - 1
_UINT16_MAX = 2**16 - 1
_WRITE_POINTER = 1_700_000_000_000_000_000
_TIMESTAMP = 1_700_000_000_000
_ID = "0000018bcfe568000000" + "0" * 20
_BASE64_TYPE = "application/json; encoding=base64"


def _avro(schema: Json) -> Json:
    told = json.dumps(schema)
    return {
        "schema": {
            "type": "string",
            "format": "binary",
            "description": f"Raw Avro binary, without a container, of the schema `{told}`",
        }
    }


def _json(schema: Json, **examples: Any) -> Json:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"schema": schema, "examples": named}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _record(required: tuple[str, ...], properties: Json, description: str | None = None) -> Json:
    record: Json = {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }
    return record if description is None else {**record, "description": description}


def _tagged(tag: str, schema: Json) -> Json:
    return _record((tag,), {tag: schema})


_TEXT: Json = {"type": "string"}
_BASE64_TEXT: Json = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
_MESSAGE_ID: Json = {
    "type": "string",
    "description": "20 bytes as hexadecimal digits: when and as which one it was published.",
    "pattern": "^[0-7][0-9a-fA-F]{19}[0-7][0-9a-fA-F]{19}$",
    "examples": [_ID],
}
_POINTER: Json = {
    "type": "integer",
    "format": "int64",
    "minimum": 1,
    "maximum": _INT64_MAX,
    "description": "A transaction's write pointer: its start in milliseconds x 1000000.",
}
_TIME: Json = {"type": "integer", "format": "int64", "minimum": 0, "maximum": _INT64_MAX - 1}
_SEQUENCE: Json = {"type": "integer", "minimum": 0, "maximum": _UINT16_MAX}
_LIMIT: Json = {"type": "integer", "format": "int32", "minimum": 1, "maximum": LIMIT_MAX}
_TTL: Json = {
    "description": "Seconds after which a message is no longer given.",
    "oneOf": [
        {"type": "integer", "minimum": 1, "maximum": TTL_S_MAX},
        {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
    ],
}
_NULL: Json = {"type": "null"}


def _poll_fields(start_from: list[Json], transaction: list[Json]) -> Json:
    return {
        "startFrom": {
            "oneOf": [*start_from, _TIME, _tagged("long", _TIME), _NULL],
            "description": "A message id, a publish time in milliseconds, or null for the oldest.",
        },
        "inclusive": {"type": "boolean", "default": True},
        "limit": {"oneOf": [_LIMIT, _tagged("int", _LIMIT), _NULL]},
        "transaction": {
            "oneOf": [*transaction, _NULL],
            "description": "Base64 of Tephra's TransactionCodec.",
        },
    }


SCHEMAS: Json = {
    "Error": _record(
        ("error",),
        {
            "error": _record(
                ("code", "message", "detail"),
                {
                    "code": {"type": "string", "description": "Stable; see each operation."},
                    "message": {"type": "string", "description": "The same for each code."},
                    "detail": {"type": "object", "description": "What varies."},
                },
            )
        },
    ),
    "Bytes": {
        "description": "UTF-8 text as it is, any bytes as base64.",
        "oneOf": [_TEXT, _tagged("base64", _BASE64_TEXT), _tagged("bytes", _TEXT)],
    },
    "GivenBytes": {
        "description": "Text where the bytes are UTF-8, base64 where not.",
        "oneOf": [_TEXT, _tagged("base64", _BASE64_TEXT)],
    },
    "WritePointer": {"oneOf": [_POINTER, _tagged("long", _POINTER)]},
    "Properties": {
        "type": "object",
        "description": (
            "`ttl` in seconds, and whatever else you want to keep with the topic. A `generation` "
            "is ignored: only the server gives one."
        ),
        "properties": {"ttl": _TTL},
        "additionalProperties": {"type": ["string", "number"]},
    },
    "TopicProperties": {
        "type": "object",
        "description": "All as strings. The whole answer of a server with `--topic-info flat`.",
        "required": ["generation", "ttl"],
        "additionalProperties": {"type": "string"},
    },
    "Topic": _record(
        ("name", "properties"), {"name": _TEXT, "properties": _reference("TopicProperties")}
    ),
    "PublishRequest": _record(
        ("messages",),
        {
            "transactionWritePointer": {"oneOf": [_reference("WritePointer"), _NULL]},
            "messages": {"type": "array", "items": _reference("Bytes")},
        },
    ),
    "PublishRequestBase64": _record(
        ("messages",),
        {
            "transactionWritePointer": {"oneOf": [_reference("WritePointer"), _NULL]},
            "messages": {"type": "array", "items": _BASE64_TEXT},
        },
    ),
    "StoreRequest": _record(
        ("transactionWritePointer", "messages"),
        {
            "transactionWritePointer": _reference("WritePointer"),
            "messages": {"type": "array", "items": _reference("Bytes"), "minItems": 1},
        },
    ),
    "PublishResponse": _record(
        ("transactionWritePointer", "rollbackRange"),
        {
            "transactionWritePointer": _reference("WritePointer"),
            "rollbackRange": _record(
                ("startTimestamp", "startSequenceId", "endTimestamp", "endSequenceId"),
                {
                    "startTimestamp": _TIME,
                    "startSequenceId": _SEQUENCE,
                    "endTimestamp": _TIME,
                    "endSequenceId": _SEQUENCE,
                },
                "The ids of the entries written, both ends inclusive.",
            ),
        },
    ),
    "ConsumeRequest": _record(
        (),
        _poll_fields(
            [_MESSAGE_ID, _tagged("bytes", _MESSAGE_ID)],
            [_BASE64_TEXT, _tagged("bytes", _BASE64_TEXT)],
        ),
    ),
    "ConsumeResponse": {
        "type": "array",
        "items": _record(
            ("id", "payload"), {"id": _MESSAGE_ID, "payload": _reference("GivenBytes")}
        ),
    },
    "ConsumeResponseBase64": {
        "type": "array",
        "items": _record(("id", "payload"), {"id": _MESSAGE_ID, "payload": _BASE64_TEXT}),
    },
}

_RANGE_EXAMPLE = {
    "transactionWritePointer": _WRITE_POINTER,
    "rollbackRange": {
        "startTimestamp": _TIMESTAMP,
        "startSequenceId": 0,
        "endTimestamp": _TIMESTAMP,
        "endSequenceId": 1,
    },
}

PROPERTIES_CONTENT = {
    "application/json": _json(_reference("Properties"), week={"ttl": 604800}, text={"ttl": "60"})
}
TOPIC_CONTENT = {
    "application/json": _json(
        {"oneOf": [_reference("Topic"), _reference("TopicProperties")]},
        topic={"name": "orders", "properties": {"generation": "1", "ttl": "604800"}},
    )
}
TOPICS_CONTENT = {
    "application/json": _json({"type": "array", "items": _TEXT}, topics=["orders", "payments"])
}
PUBLISH_CONTENT = {
    "application/json": _json(
        _reference("PublishRequest"),
        text={"messages": ["hello", "world"]},
        bytes={"messages": [{"base64": "AP8="}]},
        transactional={"transactionWritePointer": _WRITE_POINTER, "messages": ["hello"]},
        stored={"transactionWritePointer": _WRITE_POINTER, "messages": []},
    ),
    _BASE64_TYPE: _json(_reference("PublishRequestBase64"), base64={"messages": ["aGVsbG8="]}),
    "avro/binary": _avro(avro_bodies.PUBLISH_REQUEST_SCHEMA),
}
STORE_CONTENT = {
    "application/json": _json(
        _reference("StoreRequest"),
        text={"transactionWritePointer": _WRITE_POINTER, "messages": ["hello"]},
    ),
    "avro/binary": _avro(avro_bodies.PUBLISH_REQUEST_SCHEMA),
}
RANGE_CONTENT = {
    "application/json": _json(_reference("PublishResponse"), range=_RANGE_EXAMPLE),
    "avro/binary": _avro(avro_bodies.PUBLISH_RESPONSE_SCHEMA),
}
POLL_CONTENT = {
    "application/json": _json(
        _reference("ConsumeRequest"),
        oldest={},
        afterMessage={"startFrom": _ID, "inclusive": False, "limit": 100},
        fromTime={"startFrom": _TIMESTAMP},
    ),
    "avro/binary": _avro(avro_bodies.CONSUME_REQUEST_SCHEMA),
}
MESSAGES_CONTENT = {
    "application/json": _json(
        _reference("ConsumeResponse"), messages=[{"id": _ID, "payload": "hello"}]
    ),
    _BASE64_TYPE: _json(
        _reference("ConsumeResponseBase64"), messages=[{"id": _ID, "payload": "aGVsbG8="}]
    ),
    "avro/binary": _avro(avro_bodies.CONSUME_RESPONSE_SCHEMA),
}
WAIT_PARAMETER: Json = {
    "name": "wait",
    "in": "query",
    "description": "Where there is no message, wait up to so many seconds for one.",
    "schema": {"type": "number", "minimum": 0},
    "example": 5,
}
