"""The bodies of topics and messages as JSON schemas with examples, for the OpenAPI document.

The Avro schemas are `tms.wire`'s own, told in the description of each Avro body. Examples are
requests that work as they stand, and answers as the server gives them.
"""

from api.openapi.parts import (
    BASE64_TEXT,
    ID,
    LIMIT,
    MESSAGE_ID,
    NULL,
    POINTER,
    SEQUENCE,
    TEXT,
    TIME,
    TIMESTAMP,
    TTL,
    WRITE_POINTER,
    Json,
    arrow_media,
    avro_media,
    json_media,
    query_choice,
    record,
    reference,
    tagged,
)
from tms.wire import avro_bodies
from tms.wire.media_types import ARROW_TYPE, BASE64_TYPE


def _poll_fields(start_from: list[Json], transaction: list[Json]) -> Json:
    return {
        "startFrom": {
            "oneOf": [*start_from, TIME, tagged("long", TIME), NULL],
            "description": "A message id, a publish time in milliseconds, or null for the oldest.",
        },
        "inclusive": {"type": "boolean", "default": True},
        "limit": {"oneOf": [LIMIT, tagged("int", LIMIT), NULL]},
        "transaction": {
            "oneOf": [*transaction, NULL],
            "description": "Base64 of Tephra's TransactionCodec.",
        },
    }


_WRITTEN: Json = {
    "type": "integer",
    "minimum": 0,
    "description": "How many messages Arrow's body had; told of no other.",
}

_IDS: Json = {
    "type": "array",
    "items": MESSAGE_ID,
    "description": "Of the messages in their order, where `ids=true` asks for them.",
}

SCHEMAS: Json = {
    "Error": record(
        ("error",),
        {
            "error": record(
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
        "oneOf": [TEXT, tagged("base64", BASE64_TEXT), tagged("bytes", TEXT)],
    },
    "GivenBytes": {
        "description": "Text where the bytes are UTF-8, base64 where not.",
        "oneOf": [TEXT, tagged("base64", BASE64_TEXT)],
    },
    "WritePointer": {"oneOf": [POINTER, tagged("long", POINTER)]},
    "Properties": {
        "type": "object",
        "description": (
            "`ttl` in seconds, and whatever else you want to keep with the topic. A `generation` "
            "is ignored: only the server gives one."
        ),
        "properties": {"ttl": TTL},
        "additionalProperties": {"type": ["string", "number"]},
    },
    "TopicProperties": {
        "type": "object",
        "description": "All as strings. The whole answer of a server with `--topic-info flat`.",
        "required": ["generation", "ttl"],
        "additionalProperties": {"type": "string"},
    },
    "Topic": record(
        ("name", "properties"), {"name": TEXT, "properties": reference("TopicProperties")}
    ),
    "PublishRequest": record(
        ("messages",),
        {
            "transactionWritePointer": {"oneOf": [reference("WritePointer"), NULL]},
            "messages": {"type": "array", "items": reference("Bytes")},
        },
    ),
    "PublishRequestBase64": record(
        ("messages",),
        {
            "transactionWritePointer": {"oneOf": [reference("WritePointer"), NULL]},
            "messages": {"type": "array", "items": BASE64_TEXT},
        },
    ),
    "StoreRequest": record(
        ("transactionWritePointer", "messages"),
        {
            "transactionWritePointer": reference("WritePointer"),
            "messages": {"type": "array", "items": reference("Bytes"), "minItems": 1},
        },
    ),
    "PublishResponse": record(
        ("transactionWritePointer", "rollbackRange"),
        {
            "transactionWritePointer": reference("WritePointer"),
            "rollbackRange": record(
                ("startTimestamp", "startSequenceId", "endTimestamp", "endSequenceId"),
                {
                    "startTimestamp": TIME,
                    "startSequenceId": SEQUENCE,
                    "endTimestamp": TIME,
                    "endSequenceId": SEQUENCE,
                },
                "The ids of the entries written, both ends inclusive.",
            ),
            "messages": _WRITTEN,
            "ids": _IDS,
        },
    ),
    "ContentEncoding": {"type": "string", "enum": ["gzip", "x-gzip", "identity", ""]},
    "ConsumeRequest": record(
        (),
        {
            **_poll_fields(
                [MESSAGE_ID, tagged("bytes", MESSAGE_ID)],
                [BASE64_TEXT, tagged("bytes", BASE64_TEXT)],
            ),
            "end": {"oneOf": [MESSAGE_ID, NULL], "description": "Nothing from this id on."},
            "isolation": {
                "enum": ["all", "committed", None],
                "description": "As in the query.",
            },
        },
    ),
    "ConsumeResponse": {
        "type": "array",
        "items": record(("id", "payload"), {"id": MESSAGE_ID, "payload": reference("GivenBytes")}),
    },
    "ConsumeResponseBase64": {
        "type": "array",
        "items": record(("id", "payload"), {"id": MESSAGE_ID, "payload": BASE64_TEXT}),
    },
}

_RANGE_EXAMPLE = {
    "transactionWritePointer": WRITE_POINTER,
    "rollbackRange": {
        "startTimestamp": TIMESTAMP,
        "startSequenceId": 0,
        "endTimestamp": TIMESTAMP,
        "endSequenceId": 1,
    },
}

PROPERTIES_CONTENT = {
    "application/json": json_media(
        reference("Properties"), week={"ttl": 604800}, text={"ttl": "60"}
    )
}
TOPIC_CONTENT = {
    "application/json": json_media(
        {"oneOf": [reference("Topic"), reference("TopicProperties")]},
        topic={"name": "orders", "properties": {"generation": "1", "ttl": "604800"}},
    )
}
TOPICS_CONTENT = {
    "application/json": json_media({"type": "array", "items": TEXT}, topics=["orders", "payments"])
}
_PAYLOAD_COLUMN = arrow_media(
    "`payload`, binary or string, without nulls. Others are not looked at. Its batches are not "
    "compressed."
)
PUBLISH_CONTENT = {
    "application/json": json_media(
        reference("PublishRequest"),
        text={"messages": ["hello", "world"]},
        bytes={"messages": [{"base64": "AP8="}]},
        transactional={"transactionWritePointer": WRITE_POINTER, "messages": ["hello"]},
        stored={"transactionWritePointer": WRITE_POINTER, "messages": []},
    ),
    BASE64_TYPE: json_media(reference("PublishRequestBase64"), base64={"messages": ["aGVsbG8="]}),
    "avro/binary": avro_media(avro_bodies.PUBLISH_REQUEST_SCHEMA),
    ARROW_TYPE: _PAYLOAD_COLUMN,
}
STORE_CONTENT = {
    "application/json": json_media(
        reference("StoreRequest"),
        text={"transactionWritePointer": WRITE_POINTER, "messages": ["hello"]},
    ),
    "avro/binary": avro_media(avro_bodies.PUBLISH_REQUEST_SCHEMA),
    ARROW_TYPE: _PAYLOAD_COLUMN,
}
RANGE_CONTENT = {
    "application/json": json_media(reference("PublishResponse"), range=_RANGE_EXAMPLE),
    "avro/binary": avro_media(avro_bodies.PUBLISH_RESPONSE_SCHEMA),
}
WRITE_QUERY: tuple[Json, ...] = (
    {
        "name": "write_pointer",
        "in": "query",
        "description": "The transaction's, for Arrow, which has no place for it.",
        "schema": POINTER,
    },
)
PUBLISH_QUERY: tuple[Json, ...] = (
    *WRITE_QUERY,
    {
        "name": "ids",
        "in": "query",
        "description": "Whether to tell the ids of the messages.",
        "schema": {"type": "boolean", "default": False},
    },
)
POLL_CONTENT = {
    "application/json": json_media(
        reference("ConsumeRequest"),
        oldest={},
        afterMessage={"startFrom": ID, "inclusive": False, "limit": 100},
        fromTime={"startFrom": TIMESTAMP},
        range={"startFrom": TIMESTAMP, "end": ID},
    ),
    "avro/binary": avro_media(avro_bodies.CONSUME_REQUEST_SCHEMA),
}
MESSAGES_CONTENT = {
    "application/json": json_media(
        reference("ConsumeResponse"), messages=[{"id": ID, "payload": "hello"}]
    ),
    BASE64_TYPE: json_media(
        reference("ConsumeResponseBase64"), messages=[{"id": ID, "payload": "aGVsbG8="}]
    ),
    "avro/binary": avro_media(avro_bodies.CONSUME_RESPONSE_SCHEMA),
    ARROW_TYPE: arrow_media(
        "`message_id` fixed_size_binary(20), `timestamp` timestamp(ms, UTC), `seq` int32, "
        "`payload` binary, `payload_timestamp` timestamp(ms, UTC), `payload_seq` int32, the last "
        "two null unless the message was stored before. For who asks for it by Accept."
    ),
}
POLL_QUERY: tuple[Json, ...] = (
    {
        "name": "wait",
        "in": "query",
        "description": "Where there is no message, wait up to so many seconds for one.",
        "schema": {"type": "number", "minimum": 0},
        "example": 5,
    },
    {
        "name": "transaction_id",
        "in": "query",
        "description": "A transaction in progress to read by, instead of `transaction`.",
        "schema": POINTER,
    },
    query_choice(
        "isolation",
        ("all", "committed"),
        "all",
        "Without a transaction: all messages, or those that are committed, up to the first that "
        "may still commit.",
    ),
    {
        "name": "end",
        "in": "query",
        "description": "Nothing from this id on. Contradicts `wait`.",
        "schema": MESSAGE_ID,
    },
)
