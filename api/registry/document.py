"""Builds the OpenAPI document of the registry from its table of operations."""

from collections.abc import Iterable, Sequence

import msgspec

from api.http.operation import BODY_ERRORS, Json, Operation
from api.openapi.document import Errors, Info, document_of
from api.openapi.parts import path_parameters
from api.openapi.structs import schemas_of
from tms.core.errors.catalogue import CATALOGUE
from tms.registry.state.refusal import STORE_FAILED, TEXTS, TIMED_OUT, status_of
from tms.wire import registry_bodies as bodies
from tms.wire.json_fields import reference

_TAGS = {
    "Schemas": "Schemas by their ids.",
    "Subjects": "Subjects, and the versions of their schemas.",
    "Compatibility": "Checks of a schema against the versions of a subject.",
    "Config": "The compatibility levels and other settings of subjects and contexts.",
    "Mode": "Whether subjects and contexts accept new schemas.",
    "Registry": "The registry itself, and its contexts.",
}
_NOT_ACCEPTABLE = 406
_UNSUPPORTED = 415
_EMPTY = 422
_PATH_PARAMETERS = path_parameters(
    {
        "context": {
            "description": "A context; its dot may be omitted.",
            "schema": {"type": "string"},
        },
        "id": {"description": "A schema's id.", "schema": {"type": "integer"}, "example": 1},
        "guid": {"description": "A schema's guid.", "schema": {"type": "string"}},
        "subject": {
            "description": "A subject, with its context if that is not the default one: "
            "`:.ctx:name`.",
            "schema": {"type": "string"},
            "example": "orders-value",
        },
        "version": {
            "description": "A number, or `latest`.",
            "schema": {"type": "string", "pattern": "^([1-9][0-9]*|latest|-1)$"},
            "example": "latest",
        },
    }
)
_BODIES: dict[str, type[msgspec.Struct]] = {
    "SchemaRequest": bodies.SchemaRequest,
    "ConfigChange": bodies.ConfigRequest,
    "TagsRequest": bodies.TagsRequest,
    "Registered": bodies.RegisteredBody,
    "Version": bodies.VersionBody,
    "SchemaOfId": bodies.SchemaBody,
    "SubjectVersion": bodies.SubjectVersionBody,
    "ContextId": bodies.ContextIdBody,
    "Compatibility": bodies.CompatibilityBody,
    "ConfigSet": bodies.ConfigSetBody,
    "Config": bodies.ConfigBody,
    "Mode": bodies.ModeBody,
    "Status": bodies.StatusBody,
    "Error": bodies.RefusalBody,
}


def registry_document(operations: Sequence[Operation]) -> Json:
    """Return the OpenAPI document that describes `operations`."""
    return document_of(operations, _INFO, schemas_of(_BODIES, answered=False))


def _errors(operation: Operation) -> Errors:
    errors: dict[int, list[tuple[str, str]]] = {}

    def add(status: int, code: str, text: str) -> None:
        errors.setdefault(status, []).append((code, text))

    add(_NOT_ACCEPTABLE, "406", "Accept allows none of the types of this operation")
    if operation.request is not None:
        add(_UNSUPPORTED, "415", "the body has another type")
        add(_EMPTY, "422", "the body is empty")
    codes: Iterable[str] = (
        *operation.errors,
        *(() if operation.request is None else BODY_ERRORS),
        "schemas_unavailable",
        str(STORE_FAILED),
        str(TIMED_OUT),
    )
    for code in dict.fromkeys(codes):
        if code.isdigit():
            add(status_of(int(code)), code, TEXTS[int(code)])
        else:
            status = CATALOGUE[code].status
            add(status, str(status), CATALOGUE[code].message)
    for status in (400, 403, 404, 421):
        add(status, str(status), "the request is malformed, or is not for this server")
    return errors


def _refusal(_status: int, _codes: Sequence[str]) -> Json:
    return {"content": {bodies.CONTENT_TYPE: {"schema": reference("Error")}}}


_INFO = Info(
    title="TMS, its schema registry",
    description="The registry stores schemas under subjects. Its interface is that of Confluent's "
    "registry; unknown parameters are ignored.",
    servers=("/v1/registry", "/"),
    tags=_TAGS,
    parameters=_PATH_PARAMETERS,
    components={},
    named={},
    errors=_errors,
    refusal=_refusal,
)
