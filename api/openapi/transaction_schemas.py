"""The bodies of transactions and subscriptions as JSON schemas with examples."""

from api.openapi.parts import (
    BASE64_TEXT,
    ID,
    INT64_MAX,
    MESSAGE_ID,
    POINTER,
    TEXT,
    TIME,
    TIMESTAMP,
    WRITE_POINTER,
    Json,
    avro_media,
    json_media,
    nullable,
    query_choice,
    record,
    reference,
)
from tms.core.limits import NAME_CHARS_MAX
from tms.core.transactions import IfOpen, TransactionStatus
from tms.wire import avro_transactions as avro
from tms.wire.media_types import BASE64_TYPE

_TYPE: Json = {"enum": ["short", "long"]}
_COUNT: Json = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
_SECONDS: Json = {"type": "integer", "minimum": 1, "maximum": 3600}
_OWNER: Json = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX}
_TOPIC_NAME = f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$"
_SUBSCRIPTION_NAME = f"^[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}$"
_NAMESPACE_NAME = f"^[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}$"
_VERSION: Json = {**_COUNT, "description": "How often the position has been moved."}
_AFTER: Json = nullable(MESSAGE_ID)

_OWNED: Json = {
    "owner": {
        **nullable(_OWNER),
        "description": "The producer or job whose work this is. Its sequences commit once.",
    },
    "sequence": {
        **nullable(_COUNT),
        "description": "The number of the work among its owner's, ascending; needs an owner.",
    },
}


def _publish_all(messages: Json) -> Json:
    topics: Json = {
        "type": "object",
        "minProperties": 1,
        "description": "Messages by the name of their topic.",
        "propertyNames": {"pattern": _TOPIC_NAME},
        "additionalProperties": {"type": "array", "items": messages, "minItems": 1},
    }
    return record(("topics",), {"topics": topics, **_OWNED})


def _changes(change: Json) -> Json:
    return record(("changes",), {"changes": {"type": "array", "items": change}})


_INFO: Json = {
    "transaction_id": POINTER,
    "status": {"enum": list(TransactionStatus)},
    "type": _TYPE,
    "write_pointers": {"type": "array", "items": POINTER},
    "started_ms": TIME,
    "age_ms": _COUNT,
    "expires_ms": nullable(TIME),
    "client": TEXT,
    "owner": nullable(TEXT),
    "sequence": nullable(_COUNT),
    "topics": {"type": "array", "items": TEXT},
}

SCHEMAS: Json = {
    "StartRequest": record(
        (),
        {
            "type": {**_TYPE, "default": "short"},
            "timeout_s": {
                **nullable(_SECONDS),
                "description": "After so many seconds a short transaction becomes invalid.",
            },
            "client": {"type": "string", "description": "Who asks, for those who look after it."},
            **_OWNED,
            "origin": {
                **nullable(_OWNER),
                "description": "The run of the owner. Only the same may repeat a sequence.",
            },
            "if_open": {
                "enum": list(IfOpen),
                "default": IfOpen.REFUSE,
                "description": (
                    "What becomes of an older transaction of the owner that is open: this one is "
                    "refused, or the older one is invalidated, or, where the sequence is the same, "
                    "the older one is the answer."
                ),
            },
        },
    ),
    "StartedTransaction": record(
        ("transaction_id", "write_pointer", "read_pointer"),
        {
            "transaction_id": POINTER,
            "write_pointer": {**POINTER, "description": "To publish with, from now on."},
            "read_pointer": {**_COUNT, "description": "What was committed up to it can be read."},
            "transaction": {**BASE64_TEXT, "description": "Tephra's TransactionCodec."},
        },
    ),
    "TransactionInfo": record(tuple(_INFO), _INFO),
    "OneTransaction": record(
        tuple(_INFO),
        {**_INFO, "transaction": {**BASE64_TEXT, "description": "While it is in progress."}},
    ),
    "CanCommitRequest": _changes(reference("Bytes")),
    "CanCommitRequestBase64": _changes(BASE64_TEXT),
    "CommitRequest": record(
        (),
        {
            "advances": {
                "type": "array",
                "items": record(
                    ("namespace", "topic", "subscription", "after", "expected_version"),
                    {
                        "namespace": {"type": "string", "pattern": _NAMESPACE_NAME},
                        "topic": {"type": "string", "pattern": _TOPIC_NAME},
                        "subscription": {"type": "string", "pattern": _SUBSCRIPTION_NAME},
                        "after": MESSAGE_ID,
                        "expected_version": _VERSION,
                    },
                ),
            },
            "publish": {
                "type": "array",
                "description": "What was stored in these topics under these pointers of its own.",
                "items": record(
                    ("namespace", "topic", "write_pointer"),
                    {
                        "namespace": {"type": "string", "pattern": _NAMESPACE_NAME},
                        "topic": {"type": "string", "pattern": _TOPIC_NAME},
                        "write_pointer": POINTER,
                    },
                ),
            },
        },
    ),
    "EndedTransaction": record(("status",), {"status": {"enum": ["aborted", "invalid"]}}),
    "TruncateRequest": {
        "oneOf": [
            record(("ids",), {"ids": {"type": "array", "items": POINTER}}),
            record(("before_ms",), {"before_ms": TIME}),
        ]
    },
    "TruncateResponse": record(("truncated",), {"truncated": _COUNT}),
    "PublishAllRequest": _publish_all(reference("Bytes")),
    "PublishAllRequestBase64": _publish_all(BASE64_TEXT),
    "PublishAllResponse": record(
        ("transaction_id", "duplicate"),
        {
            "transaction_id": POINTER,
            "duplicate": {
                "type": "boolean",
                "description": "The sequence was committed before; nothing was done now.",
            },
        },
    ),
    "SubscriptionRequest": record((), {"after": _AFTER}),
    "Subscription": record(
        ("name", "after", "version"), {"name": TEXT, "after": _AFTER, "version": _VERSION}
    ),
    "AdvanceRequest": record(
        ("after", "expected_version"), {"after": MESSAGE_ID, "expected_version": _VERSION}
    ),
}

_INFO_EXAMPLE = {
    "transaction_id": WRITE_POINTER,
    "status": "in_progress",
    "type": "short",
    "write_pointers": [WRITE_POINTER],
    "started_ms": TIMESTAMP,
    "age_ms": 1200,
    "expires_ms": TIMESTAMP + 30_000,
    "client": "billing-7",
    "owner": None,
    "sequence": None,
    "topics": ["default:orders"],
}
_SUBSCRIPTION_EXAMPLE = {"name": "billing", "after": ID, "version": 7}

START_CONTENT = {
    "application/json": json_media(
        reference("StartRequest"),
        defaults={},
        long={"type": "long", "client": "nightly-job"},
        once={"owner": "billing", "sequence": 7, "if_open": "fence", "timeout_s": 60},
    ),
    "avro/binary": avro_media(avro.START_SCHEMA),
}
STARTED_CONTENT = {
    "application/json": json_media(
        reference("StartedTransaction"),
        started={
            "transaction_id": WRITE_POINTER,
            "write_pointer": WRITE_POINTER,
            "read_pointer": WRITE_POINTER - 1,
        },
    ),
    "avro/binary": avro_media(avro.STARTED_SCHEMA),
}
CHANGES_CONTENT = {
    "application/json": json_media(
        reference("CanCommitRequest"), changes={"changes": ["order-17", {"base64": "AP8="}]}
    ),
    BASE64_TYPE: json_media(reference("CanCommitRequestBase64"), changes={"changes": ["AP8="]}),
    "avro/binary": avro_media(avro.CHANGES_SCHEMA),
}
COMMIT_CONTENT = {
    "application/json": json_media(
        reference("CommitRequest"),
        nothing={},
        position={
            "advances": [
                {
                    "namespace": "default",
                    "topic": "orders",
                    "subscription": "billing",
                    "after": ID,
                    "expected_version": 7,
                }
            ]
        },
        stored={
            "publish": [
                {"namespace": "default", "topic": "orders", "write_pointer": WRITE_POINTER + 1},
                {"namespace": "default", "topic": "orders", "write_pointer": WRITE_POINTER + 2},
            ]
        },
    ),
    "avro/binary": avro_media(avro.COMMIT_SCHEMA),
}
STATUS_CONTENT = {
    "application/json": json_media(reference("EndedTransaction"), aborted={"status": "aborted"}),
    "avro/binary": avro_media(avro.STATUS_SCHEMA),
}
INFO_CONTENT = {"application/json": json_media(reference("OneTransaction"), open=_INFO_EXAMPLE)}
INFOS_CONTENT = {
    "application/json": json_media(
        {"type": "array", "items": reference("TransactionInfo")}, one=[_INFO_EXAMPLE]
    )
}
SIZE_CONTENT = {
    "application/json": json_media(record(("size",), {"size": _COUNT}), ten={"size": 10})
}
TRUNCATE_CONTENT = {
    "application/json": json_media(
        reference("TruncateRequest"),
        ids={"ids": [WRITE_POINTER]},
        time={"before_ms": TIMESTAMP},
    ),
    "avro/binary": avro_media(avro.TRUNCATION_SCHEMA),
}
TRUNCATED_CONTENT = {
    "application/json": json_media(reference("TruncateResponse"), one={"truncated": 1}),
    "avro/binary": avro_media(avro.TRUNCATED_SCHEMA),
}
STATE_CONTENT = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}
PUBLISH_ALL_CONTENT = {
    "application/json": json_media(
        reference("PublishAllRequest"),
        text={"topics": {"orders": ["order 17"], "audit": ["17 was ordered"]}},
        once={"topics": {"orders": ["order 17"]}, "owner": "shop-1", "sequence": 17},
    ),
    BASE64_TYPE: json_media(
        reference("PublishAllRequestBase64"), base64={"topics": {"orders": ["AP8="]}}
    ),
    "avro/binary": avro_media(avro.PUBLISH_ALL_SCHEMA),
}
PUBLISHED_ALL_CONTENT = {
    "application/json": json_media(
        reference("PublishAllResponse"),
        published={"transaction_id": WRITE_POINTER, "duplicate": False},
    ),
    "avro/binary": avro_media(avro.PUBLISHED_ALL_SCHEMA),
}
POSITION_CONTENT = {
    "application/json": json_media(
        reference("SubscriptionRequest"), oldest={}, position={"after": ID}
    ),
    "avro/binary": avro_media(avro.POSITION_SCHEMA),
}
SUBSCRIPTION_CONTENT = {
    "application/json": json_media(reference("Subscription"), billing=_SUBSCRIPTION_EXAMPLE),
    "avro/binary": avro_media(avro.SUBSCRIPTION_SCHEMA),
}
SHOWN_SUBSCRIPTION_CONTENT = {"application/json": SUBSCRIPTION_CONTENT["application/json"]}
SUBSCRIPTIONS_CONTENT = {
    "application/json": json_media(
        {"type": "array", "items": reference("Subscription")}, one=[_SUBSCRIPTION_EXAMPLE]
    )
}
MOVE_CONTENT = {
    "application/json": json_media(
        reference("AdvanceRequest"), position={"after": ID, "expected_version": 7}
    ),
    "avro/binary": avro_media(avro.MOVE_SCHEMA),
}
CODEC_PARAMETER: Json = {
    "name": "codec",
    "in": "query",
    "description": (
        "Whether `transaction` is answered: with many invalid transactions it is large."
    ),
    "schema": {"type": "boolean", "default": True},
}
STATUS_PARAMETER = query_choice(
    "status",
    (TransactionStatus.IN_PROGRESS, TransactionStatus.INVALID),
    TransactionStatus.IN_PROGRESS,
    "Which transactions; those that are committing are in progress.",
)
LIMIT_PARAMETER: Json = {
    "name": "limit",
    "in": "query",
    "description": "How many at most, the oldest; by default all.",
    "schema": {"type": "integer", "minimum": 1, "maximum": INT64_MAX},
}
