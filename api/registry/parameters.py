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


SUBJECT_HINT = _text("subject", "The subject that the schema is of, and so its context.")
_PREFIX = "How the subjects begin; `:*:` is all contexts, `:.ctx:` one"
SUBJECT_PREFIX = _text("subjectPrefix", f"{_PREFIX}.", ":*:")
SUBJECT_PREFIX_OF_SCHEMAS = _text("subjectPrefix", f"{_PREFIX}, nothing the default one.")
CONTEXT_PREFIX = _text("contextPrefix", "How the contexts begin.")
FETCH_MAX_ID = _flag("fetchMaxId", "Tell the greatest id of the context too.")
FORMAT = _text(
    "format",
    "`resolved`: an Avro schema with what it refers to; of Protobuf `serialized`: a descriptor in "
    "base64, `ignore_extensions`: without the options that authors define.",
)
FIND_TAGS = _text(
    "findTags",
    "Tell what in the schema has this tag, with all its tags; may be given several times. `*` or "
    "`true`: what has any.",
)
RULE_TYPE = _text("ruleType", "Show only what has a rule of this type.")
PROPERTY_NAME = _text("key", "The name of a property.")
PROPERTY_VALUE = _text("value", "The value of that property.")
DELETED = _flag("deleted", "Show what was soft-deleted, too.")
DELETED_ONLY = _flag("deletedOnly", "Show only what was soft-deleted.")
LATEST_ONLY = _flag("latestOnly", "Show only the latest version of each subject.")
NORMALIZE = _flag("normalize", "Compare and keep the normalized text.")
PERMANENT = _flag("permanent", "Delete for good what was soft-deleted.")
VERBOSE = _flag("verbose", "Tell why it does not fit.")
FORCE = _flag("force", "Import also where there are schemas.")
DEFAULT_TO_GLOBAL = _flag("defaultToGlobal", "Answer with what counts, if nothing is set here.")
PAGE = (
    _number("offset", "How many to leave out at the beginning.", 0),
    _number("limit", "How many to give at most; below 1 all.", -1),
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
