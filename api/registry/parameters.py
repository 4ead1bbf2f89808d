"""Rows, parameters and bodies of the registry's interface, for its OpenAPI document."""

from functools import partial

from api.http.operation import Operation
from api.openapi.parts import parameter, query_flag, query_text
from tms.security.resources import Action
from tms.wire.json_fields import Json, reference
from tms.wire.registry_bodies import CONTENT_TYPE

ROW = partial(Operation, takes_any_query=True)
POST = partial(ROW, method="POST")
GET = partial(ROW, action=Action.READ, method="GET")
DELETE = partial(ROW, action=Action.DELETE, method="DELETE")

SUBJECT_HINT = query_text("subject", "A subject of the schema, which also gives the context.")
_PREFIX = "The prefix of the subjects; `:*:` means all contexts, `:.ctx:` one"
SUBJECT_PREFIX = query_text("subjectPrefix", f"{_PREFIX}.", default=":*:")
SUBJECT_PREFIX_OF_SCHEMAS = query_text("subjectPrefix", f"{_PREFIX}, and nothing the default one.")
CONTEXT_PREFIX = query_text("contextPrefix", "The prefix of the contexts.")
FETCH_MAX_ID = query_flag("fetchMaxId", "Include the greatest id of the context.")
FORMAT = query_text(
    "format",
    "For Avro, `resolved`: with the schemas that it refers to. For Protobuf, `serialized`: a "
    "descriptor in base64, or `ignore_extensions`: without custom options.",
)
FIND_TAGS = query_text(
    "findTags",
    "Include the parts of the schema that have this tag, with all their tags; may be given several "
    "times. `*` or `true`: parts with any tag.",
)
RULE_TYPE = query_text("ruleType", "Show only schemas with a rule of this type.")
PROPERTY_NAME = query_text("key", "The name of a property.")
PROPERTY_VALUE = query_text("value", "The value of that property.")
DELETED = query_flag("deleted", "Include soft-deleted ones.")
DELETED_ONLY = query_flag("deletedOnly", "Show only soft-deleted ones.")
LATEST_ONLY = query_flag("latestOnly", "Show only the latest version of each subject.")
ALIASES = query_flag("aliases", "Include the other names of each subject.")
NORMALIZE = query_flag("normalize", "Compare and store the normalized text.")
PERMANENT = query_flag("permanent", "Delete permanently, after the soft deletion.")
VERBOSE = query_flag("verbose", "Include the reasons if it is not compatible.")
RECURSIVE = query_flag("recursive", "Also remove the modes of the subjects in this scope.")
FORCE = query_flag("force", "Allow importing although schemas exist.")
DEFAULT_TO_GLOBAL = query_flag(
    "defaultToGlobal", "If nothing is set here, return the value that applies."
)
PAGE = (
    parameter("offset", "How many to skip at the beginning.", {"type": "integer", "default": 0}),
    parameter(
        "limit", "The most to return; below 1 means all.", {"type": "integer", "default": -1}
    ),
)


def content(schema: Json) -> Json:
    """Return the media type objects of a body."""
    return {media_type: {"schema": schema} for media_type in (CONTENT_TYPE, "application/json")}


def body(name: str) -> Json:
    """Return the media type objects of a body with a named schema."""
    return content(reference(name))


def bodies(name: str) -> Json:
    """Return the media type objects of a list of such bodies."""
    return content({"type": "array", "items": reference(name)})


TEXT = {CONTENT_TYPE: {"schema": {"type": "string"}}}
NAMES = content({"type": "array", "items": {"type": "string"}})
NUMBERS = content({"type": "array", "items": {"type": "integer"}})
NUMBER = content({"type": "integer"})
OBJECT = content({"type": "object"})
