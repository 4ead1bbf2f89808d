"""Types for the fields of JSON bodies, with the OpenAPI schemas of their values.

msgspec decodes by the plain types only. Finer rules, like the minimum of a number, are enforced
later by errors with their own codes, so they are in the schema here and not in a constraint.
"""

from typing import Annotated, Any

from msgspec import Meta

from tms.core.limits import JSON_INTEGER_MAX, LIMIT_MAX, NAME_CHARS_MAX, UINT16_COUNT
from tms.core.values.filter_parser import CHARS_MAX
from tms.wire.json_values import Int64, JsonBytes

Json = dict[str, Any]

INSTEAD = "x-instead"
"""The key of a schema that replaces the one that msgspec derives from the type."""


def described_by(schema: Json) -> Meta:
    """Return the annotation of a field whose values `schema` describes, instead of its type."""
    return Meta(extra_json_schema={INSTEAD: schema})


def reference(name: str) -> Json:
    """Return a reference to a schema of the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{name}"}


def one_of(*schemas: Json) -> Json:
    """Return the schema of a value that matches one of several schemas."""
    return {"oneOf": list(schemas)}


def tagged(tag: str, schema: Json) -> Json:
    """Return the schema of Avro's tagged form of a union's branch."""
    return {
        "type": "object",
        "required": [tag],
        "properties": {tag: schema},
        "additionalProperties": False,
    }


def _text(pattern: str) -> Json:
    return {"type": "string", "pattern": f"^[{pattern}]{{1,{NAME_CHARS_MAX}}}$"}


NULL: Json = {"type": "null"}
TEXT: Json = {"type": "string"}
BASE64_TEXT: Json = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
ID_EXAMPLE = "0000018bcfe568000000" + "0" * 20
MESSAGE_ID: Json = {
    "type": "string",
    "description": "20 bytes as hexadecimal digits: the time and the order of publishing.",
    "pattern": "^[0-7][0-9a-fA-F]{19}[0-7][0-9a-fA-F]{19}$",
    "examples": [ID_EXAMPLE],
}
FILTER: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": CHARS_MAX,
    "examples": ['key ^= "eu-" and header.type = "order" and not header.test exists'],
    "description": "Only messages whose key and headers match.",
}
END_ID: Json = {**MESSAGE_ID, "description": "The position after the message: exclusive."}
TIME: Json = {"type": "integer", "format": "int64", "minimum": 0, "maximum": JSON_INTEGER_MAX}
COUNT: Json = {"type": "integer", "minimum": 0, "maximum": JSON_INTEGER_MAX}
LIMIT: Json = {"type": "integer", "format": "int32", "minimum": 1, "maximum": LIMIT_MAX}
NAMESPACE_NAME = _text("A-Za-z0-9_")
TOPIC_NAME = _text("A-Za-z0-9_-")
SUBSCRIPTION_NAME = _text("A-Za-z0-9_.-")

MessageIdText = Annotated[str, described_by(MESSAGE_ID)]
EndIdText = Annotated[str, described_by(END_ID)]
NamespaceName = Annotated[str, described_by(NAMESPACE_NAME)]
TopicName = Annotated[str, described_by(TOPIC_NAME)]
SubscriptionName = Annotated[str, described_by(SUBSCRIPTION_NAME)]
OwnerName = Annotated[
    str, described_by({"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX})
]
TimeMs = Annotated[Int64, described_by(TIME)]
Timestamp = Annotated[int, described_by(TIME)]
"""A time whose 64 bits are checked later, with an error that names the field."""
Count = Annotated[Int64, described_by(COUNT)]
Owner = Annotated[
    OwnerName | None,
    Meta(description="The producer or job whose work this is. Its sequences commit once."),
]
OwnersSequence = Annotated[
    Count | None,
    Meta(description="The number of the work among its owner's, ascending; needs an owner."),
]
SequenceId = Annotated[
    int, described_by({"type": "integer", "minimum": 0, "maximum": UINT16_COUNT - 1})
]
Version = Annotated[
    Int64, described_by({**COUNT, "description": "How often the position has been moved."})
]
MessageBytes = Annotated[JsonBytes, described_by(reference("Bytes"))]
"""Text, or bytes as base64; only base64 if the Content-Type says so."""
