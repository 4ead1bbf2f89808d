"""Parameters and bodies of the registry's interface, as its OpenAPI document has them."""

from api.openapi.parts import parameter, query_flag, query_text
from tms.wire.json_fields import Json, reference
from tms.wire.registry_bodies import CONTENT_TYPE

SUBJECT_HINT = query_text("subject", "The subject that the schema is of, and so its context.")
_PREFIX = "How the subjects begin; `:*:` is all contexts, `:.ctx:` one"
SUBJECT_PREFIX = query_text("subjectPrefix", f"{_PREFIX}.", default=":*:")
SUBJECT_PREFIX_OF_SCHEMAS = query_text("subjectPrefix", f"{_PREFIX}, nothing the default one.")
CONTEXT_PREFIX = query_text("contextPrefix", "How the contexts begin.")
FETCH_MAX_ID = query_flag("fetchMaxId", "Tell the greatest id of the context too.")
FORMAT = query_text(
    "format",
    "`resolved`: an Avro schema with what it refers to; of Protobuf `serialized`: a descriptor in "
    "base64, `ignore_extensions`: without the options that authors define.",
)
FIND_TAGS = query_text(
    "findTags",
    "Tell what in the schema has this tag, with all its tags; may be given several times. `*` or "
    "`true`: what has any.",
)
RULE_TYPE = query_text("ruleType", "Show only what has a rule of this type.")
PROPERTY_NAME = query_text("key", "The name of a property.")
PROPERTY_VALUE = query_text("value", "The value of that property.")
DELETED = query_flag("deleted", "Show what was soft-deleted, too.")
DELETED_ONLY = query_flag("deletedOnly", "Show only what was soft-deleted.")
LATEST_ONLY = query_flag("latestOnly", "Show only the latest version of each subject.")
NORMALIZE = query_flag("normalize", "Compare and keep the normalized text.")
PERMANENT = query_flag("permanent", "Delete for good what was soft-deleted.")
VERBOSE = query_flag("verbose", "Tell why it does not fit.")
FORCE = query_flag("force", "Import also where there are schemas.")
DEFAULT_TO_GLOBAL = query_flag(
    "defaultToGlobal", "Answer with what counts, if nothing is set here."
)
PAGE = (
    parameter(
        "offset", "How many to leave out at the beginning.", {"type": "integer", "default": 0}
    ),
    parameter(
        "limit", "How many to give at most; below 1 all.", {"type": "integer", "default": -1}
    ),
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
