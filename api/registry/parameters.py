"""Parameters and bodies of the registry's interface, as its OpenAPI document has them."""

from typing import Any

from tms.wire.json_fields import reference
from tms.wire.registry_bodies import CONTENT_TYPE

Json = dict[str, Any]


def _flag(name: str, description: str) -> Json:
    schema = {"type": "boolean", "default": False}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _number(name: str, description: str, default: int) -> Json:
    schema = {"type": "integer", "default": default}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _text(name: str, description: str, default: str = "") -> Json:
    schema: Json = {"type": "string"}
    if default:
        schema["default"] = default
    return {"name": name, "in": "query", "description": description, "schema": schema}


SUBJECT_HINT = _text("subject", "A subject of the schema, which also gives the context.")
_PREFIX = "The prefix of the subjects; `:*:` means all contexts, `:.ctx:` one"
SUBJECT_PREFIX = _text("subjectPrefix", f"{_PREFIX}.", ":*:")
SUBJECT_PREFIX_OF_SCHEMAS = _text("subjectPrefix", f"{_PREFIX}, and nothing the default one.")
CONTEXT_PREFIX = _text("contextPrefix", "The prefix of the contexts.")
FETCH_MAX_ID = _flag("fetchMaxId", "Include the greatest id of the context.")
FORMAT = _text(
    "format",
    "For Avro, `resolved`: with the schemas that it refers to. For Protobuf, `serialized`: a "
    "descriptor in base64, or `ignore_extensions`: without custom options.",
)
FIND_TAGS = _text(
    "findTags",
    "Include the parts of the schema that have this tag, with all their tags; may be given several "
    "times. `*` or `true`: parts with any tag.",
)
RULE_TYPE = _text("ruleType", "Show only schemas with a rule of this type.")
PROPERTY_NAME = _text("key", "The name of a property.")
PROPERTY_VALUE = _text("value", "The value of that property.")
DELETED = _flag("deleted", "Include soft-deleted ones.")
DELETED_ONLY = _flag("deletedOnly", "Show only soft-deleted ones.")
LATEST_ONLY = _flag("latestOnly", "Show only the latest version of each subject.")
NORMALIZE = _flag("normalize", "Compare and store the normalized text.")
PERMANENT = _flag("permanent", "Delete for good, after the soft deletion.")
VERBOSE = _flag("verbose", "Include the reasons if it is not compatible.")
FORCE = _flag("force", "Allow importing although there are schemas.")
DEFAULT_TO_GLOBAL = _flag(
    "defaultToGlobal", "If nothing is set here, answer with the value that applies."
)
PAGE = (
    _number("offset", "How many to skip at the beginning.", 0),
    _number("limit", "The most to return; below 1 means all.", -1),
)


def content(schema: Json) -> Json:
    """Return the media type objects of a body."""
    return {media_type: {"schema": schema} for media_type in (CONTENT_TYPE, "application/json")}


def body(name: str) -> Json:
    """Return the media type objects of a body that has a schema of a name."""
    return content(reference(name))


def bodies(name: str) -> Json:
    """Return the media type objects of a list of them."""
    return content({"type": "array", "items": reference(name)})


TEXT = {CONTENT_TYPE: {"schema": {"type": "string"}}}
NAMES = content({"type": "array", "items": {"type": "string"}})
NUMBERS = content({"type": "array", "items": {"type": "integer"}})
NUMBER = content({"type": "integer"})
OBJECT = content({"type": "object"})
