"""The bodies of topics and messages with examples, for the OpenAPI document.

The Avro schemas are those of `tms.wire`; the description of each Avro body contains its schema.
Examples are valid requests, and answers as the server sends them.
"""

from api.openapi.parts import (
    FILTER_PARAMETER,
    TIMESTAMP,
    TTL,
    WRITE_POINTER,
    arrow_media,
    avro_media,
    json_content,
    json_media,
    parameter,
    query_choice,
    query_flag,
    query_wait,
)
from api.openapi.structs import schemas_of
from tms.core.services.messaging import EMPTY
from tms.wire import avro_bodies, avro_frames
from tms.wire.cloud_events import BATCH_TYPE
from tms.wire.json_bodies import (
    PollBody,
    PublishAllBody,
    PublishBody,
    PublishedAllBody,
    RollbackBody,
)
from tms.wire.json_decoded_values import DecodedBody
from tms.wire.json_errors import ErrorBody, ProblemDetails
from tms.wire.json_fields import (
    BASE64_TEXT,
    FILTER,
    ID_EXAMPLE,
    MESSAGE_ID,
    NULL,
    TEXT,
    Json,
    one_of,
    reference,
    tagged,
)
from tms.wire.json_ids import POINTER
from tms.wire.json_messages import MESSAGE_SCHEMAS, MessageBody
from tms.wire.json_topics import TopicBody, TrimBody
from tms.wire.media_types import (
    ARROW_TYPE,
    AVRO_FRAMES_TYPE,
    DECODED_TYPE,
    POLLED_ARROW_TYPE,
)

_BODIES = schemas_of(
    {
        "PublishBody": PublishBody,
        "PublishedRange": RollbackBody,
        "PublishAllBody": PublishAllBody,
        "ConsumeRequest": PollBody,
        "TrimRequest": TrimBody,
    },
    answered=False,
)
_ANSWERS = schemas_of(
    {
        "Error": ErrorBody,
        "Problem": ProblemDetails,
        "Message": MessageBody,
        "Topic": TopicBody,
        "DecodedMessage": DecodedBody,
        "PublishedAll": PublishedAllBody,
    },
    answered=True,
)
_PUBLISH = _BODIES["PublishBody"]
_RANGE = _BODIES["PublishedRange"]
_SOME: Json = {"messages": {**_PUBLISH["properties"]["messages"], "minItems": 1}}
_MESSAGES: Json = {"type": "array", "items": reference("Message")}

SCHEMAS: Json = {
    **_BODIES,
    **_ANSWERS,
    "StoreBody": {
        **_PUBLISH,
        "required": ["transactionWritePointer", "messages"],
        "properties": {"transactionWritePointer": reference("WritePointer"), **_SOME},
    },
    "ScheduleBody": {**_PUBLISH, "required": ["messages"], "properties": _SOME},
    "ConsumeResponse": _MESSAGES,
    "MessagesWithStop": {
        "type": "object",
        "description": "The answer to a poll with `?stopped_at=true`.",
        "required": ["messages", "stoppedAt"],
        "properties": {
            "messages": {
                "description": "The same as in an answer without that parameter.",
                "type": "array",
                "items": {},
            },
            "stoppedAt": {
                "description": "The id of the transaction at which the reader stopped; else null.",
                **one_of(POINTER, NULL),
            },
            "nextPosition": {"description": "The header `TMS-Next-Position`.", **MESSAGE_ID},
            "atEnd": {"description": "The header `TMS-At-End`.", "type": "boolean"},
        },
        "additionalProperties": False,
    },
    "Published": {
        **_RANGE,
        "description": (
            "The answer to a publish, if it has a body. Without a transaction it has only `ids`, "
            "or for Arrow `messages`."
        ),
        "required": [],
    },
    **MESSAGE_SCHEMAS,
    "Bytes": {
        "description": "UTF-8 text is shown as text, other bytes as base64.",
        **one_of(TEXT, tagged("base64", BASE64_TEXT), tagged("bytes", TEXT)),
    },
    "GivenBytes": {
        "description": "Text if the bytes are UTF-8, otherwise base64.",
        **one_of(TEXT, tagged("base64", BASE64_TEXT)),
    },
    "WritePointer": one_of(POINTER, tagged("long", POINTER)),
    "Properties": {
        "type": "object",
        "description": (
            "`ttl` in seconds, and other properties of your own. A `generation` is ignored, "
            "because only the server sets it."
        ),
        "properties": {"ttl": TTL},
        "additionalProperties": {"type": ["string", "number"]},
    },
    "TopicProperties": {
        "type": "object",
        "description": "All values are strings. With `--topic-info flat` this is the whole answer.",
        "required": ["generation", "ttl"],
        "additionalProperties": {"type": "string"},
    },
    "BodyEncoding": {"type": "string", "enum": ["gzip", "x-gzip", "identity", ""]},
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

PROPERTIES_CONTENT = json_content(reference("Properties"), week={"ttl": 604800}, text={"ttl": "60"})
TOPIC_CONTENT = json_content(
    {"oneOf": [reference("Topic"), reference("TopicProperties")]},
    topic={"name": "orders", "properties": {"generation": "1", "ttl": "604800"}},
)
TRIM_CONTENT = json_content(
    reference("TrimRequest"), time={"before": TIMESTAMP}, message={"before": ID_EXAMPLE}
)
TOPICS_CONTENT = json_content({"type": "array", "items": TEXT}, topics=["orders", "payments"])
_PUBLISHED_COLUMNS = arrow_media(
    "`payload` or `value`, and optionally `key`: binary or string; and `headers`: "
    "map<string, binary>, or a list of structs of both. Other columns are ignored. A payload is "
    "null only if there is a key. The batches must not be compressed."
)
PUBLISH_CONTENT = {
    "application/json": json_media(
        reference("PublishBody"),
        text={"messages": ["hello", "world"]},
        bytes={"messages": [{"base64": "AP8="}]},
        keyed={"messages": [{"payload": "hello", "key": "k", "headers": {"trace": "7f"}}]},
        tombstone={"messages": [{"payload": None, "key": "k"}]},
        value={"messages": [{"value": {"count": 1}, "key": "k"}]},
        transactional={"transactionWritePointer": WRITE_POINTER, "messages": ["hello"]},
        stored={"transactionWritePointer": WRITE_POINTER, "messages": []},
    ),
    "avro/binary": avro_media(avro_bodies.PUBLISH_REQUEST_SCHEMA),
    AVRO_FRAMES_TYPE: avro_media(avro_frames.PUBLISH_FRAMES_SCHEMA),
    ARROW_TYPE: _PUBLISHED_COLUMNS,
}
STORE_CONTENT = {
    **PUBLISH_CONTENT,
    "application/json": json_media(
        reference("StoreBody"),
        text={"transactionWritePointer": WRITE_POINTER, "messages": ["hello"]},
    ),
}
SCHEDULE_CONTENT = {
    **PUBLISH_CONTENT,
    "application/json": json_media(
        reference("ScheduleBody"),
        text={"messages": ["hello", "world"]},
        keyed={"messages": [{"payload": "hello", "key": "k", "headers": {"trace": "7f"}}]},
    ),
}
PUBLISH_ALL_CONTENT = {
    "application/json": json_media(
        reference("PublishAllBody"),
        text={"topics": {"orders": ["order 17"], "audit": ["17 was ordered"]}},
        once={"topics": {"orders": ["order 17"]}, "owner": "shop-1", "sequence": 17},
    ),
    "avro/binary": avro_media(avro_bodies.PUBLISH_ALL_SCHEMA),
    AVRO_FRAMES_TYPE: avro_media(avro_frames.PUBLISH_ALL_FRAMES_SCHEMA),
}
PUBLISHED_ALL_CONTENT = {
    "application/json": json_media(
        reference("PublishedAll"),
        published={"transaction_id": WRITE_POINTER, "duplicate": False},
    ),
    "avro/binary": avro_media(avro_bodies.PUBLISHED_ALL_SCHEMA),
    AVRO_FRAMES_TYPE: avro_media(avro_bodies.PUBLISHED_ALL_SCHEMA),
}
PUBLISHED_CONTENT = {
    "application/json": json_media(
        reference("Published"), ids={"ids": [ID_EXAMPLE]}, transactional=_RANGE_EXAMPLE
    ),
    "avro/binary": avro_media(avro_bodies.PUBLISH_RESPONSE_SCHEMA),
}
RANGE_CONTENT = {
    "application/json": json_media(reference("PublishedRange"), range=_RANGE_EXAMPLE),
    "avro/binary": avro_media(avro_bodies.PUBLISH_RESPONSE_SCHEMA),
}
WRITE_QUERY: tuple[Json, ...] = (
    parameter(
        "write_pointer",
        "The transaction's write pointer, for Arrow, whose body cannot contain it.",
        POINTER,
    ),
)
IF_LAST = parameter(
    "if_last",
    "Publish only if the topic has no entry after this id; `empty`: no entry at all.",
    {"type": "string", "pattern": f"{MESSAGE_ID['pattern']}|^{EMPTY}$"},
)
PUBLISH_QUERY: tuple[Json, ...] = (
    *WRITE_QUERY,
    query_flag("ids", "Whether to answer with the ids of the messages."),
    IF_LAST,
)
POLL_CONTENT = {
    "application/json": json_media(
        reference("ConsumeRequest"),
        oldest={},
        afterMessage={"startFrom": ID_EXAMPLE, "inclusive": False, "limit": 100},
        fromTime={"startFrom": TIMESTAMP},
        range={"startFrom": TIMESTAMP, "end": ID_EXAMPLE},
        filtered={"filter": FILTER["examples"][0]},
    ),
    "avro/binary": avro_media(avro_bodies.CONSUME_REQUEST_SCHEMA),
    AVRO_FRAMES_TYPE: avro_media(avro_bodies.CONSUME_REQUEST_SCHEMA),
}


def _polled(messages: Json) -> Json:
    """Return the schema of a poll's answer in JSON: messages, or an object that contains them."""
    return one_of(messages, reference("MessagesWithStop"))


MESSAGES_CONTENT = {
    "application/json": json_media(
        _polled(reference("ConsumeResponse")),
        messages=[{"id": ID_EXAMPLE, "timestamp": TIMESTAMP, "payload": "hello"}],
    ),
    DECODED_TYPE: json_media(
        _polled({"type": "array", "items": reference("DecodedMessage")}),
        messages=[{"id": ID_EXAMPLE, "value": {"count": 1}, "schemaId": 1}],
    ),
    BATCH_TYPE: json_media(
        {"type": "array", "items": {"type": "object"}},
        events=[{"specversion": "1.0", "id": "17", "source": "/shop", "type": "shop.order"}],
    ),
    "avro/binary": avro_media(avro_bodies.CONSUME_RESPONSE_SCHEMA),
    AVRO_FRAMES_TYPE: avro_media(avro_frames.CONSUME_FRAMES_SCHEMA),
    POLLED_ARROW_TYPE: arrow_media(
        "`message_id` fixed_size_binary(20), `timestamp` timestamp(ms, UTC), `seq` int32, "
        "`payload` binary, null if the message is a tombstone; `payload_timestamp` timestamp(ms, "
        "UTC) and `payload_seq` int32, null unless the message was stored before; `key` binary, "
        "`headers` "
        "map<string, binary>, both null if the message has none. For clients whose Accept names it."
    ),
}
POLL_QUERY: tuple[Json, ...] = (
    query_wait("If there is no message, the number of seconds to wait for one."),
    parameter(
        "transaction_id",
        "The id of a transaction in progress whose snapshot to read, instead of `transaction`.",
        POINTER,
    ),
    query_choice(
        "isolation",
        ("all", "committed"),
        "all",
        "Without a transaction: all messages, or only committed ones, up to the first one that may "
        "still commit.",
    ),
    query_flag(
        "stopped_at",
        "Answer in JSON with an object: the `messages`, and in `stoppedAt` the transaction at "
        "which the reader stopped.",
    ),
    parameter(
        "end",
        "The end: no messages from this id on. It cannot be used with `wait`.",
        MESSAGE_ID,
    ),
    FILTER_PARAMETER,
)
