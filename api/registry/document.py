"""Builds the OpenAPI document of the registry from its table of operations."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from api.http.operation import Json, Operation
from api.openapi.structs import schemas_of
from tms import __version__
from tms.core.errors.catalogue import CATALOGUE
from tms.registry.refusal import STORE_FAILED, TEXTS, TIMED_OUT, status_of
from tms.wire import registry_bodies as bodies
from tms.wire.json_fields import reference

_TAGS = ("Schemas", "Subjects", "Compatibility", "Config", "Mode", "Registry")
_NOT_ACCEPTABLE = 406
_UNSUPPORTED = 415
_PATH_PARAMETERS: Json = {
    "context": {"description": "A context; its dot may be left out.", "schema": {"type": "string"}},
    "id": {"description": "A schema's id.", "schema": {"type": "integer"}, "example": 1},
    "guid": {"description": "A schema's guid.", "schema": {"type": "string"}},
    "subject": {
        "description": "A subject, with its context if that is not the default one: `:.ctx:name`.",
        "schema": {"type": "string"},
        "example": "orders-value",
    },
    "version": {
        "description": "A number, or `latest`.",
        "schema": {"type": "string", "pattern": "^([1-9][0-9]*|latest|-1)$"},
        "example": "latest",
    },
}
_REQUESTS: dict[str, type[msgspec.Struct]] = {
    "SchemaRequest": bodies.SchemaRequest,
    "ConfigRequest": bodies.ConfigRequest,
    "TagsRequest": bodies.TagsRequest,
}
_ANSWERS: dict[str, type[msgspec.Struct]] = {
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


def document_of(operations: Sequence[Operation]) -> Json:
    """Return the OpenAPI document that describes `operations`."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TMS, its schema registry",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "The registry stores schemas under subjects. Its interface is that of Confluent's "
                "registry; unknown parameters are ignored."
            ),
        },
        "servers": [{"url": "/v1/registry"}, {"url": "/"}],
        "tags": [{"name": tag} for tag in _TAGS],
        "paths": paths,
        "components": {
            "schemas": {
                **schemas_of(_REQUESTS, answered=False),
                **schemas_of(_ANSWERS, answered=False),
            },
            "parameters": {
                name: {"name": name, "in": "path", "required": True, **parameter}
                for name, parameter in _PATH_PARAMETERS.items()
            },
        },
    }


def _operation(operation: Operation) -> Json:
    names = re.findall(r"{(\w+)}", operation.path)
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [
            *({"$ref": f"#/components/parameters/{name}"} for name in names),
            *operation.query,
        ],
    }
    if operation.request is not None:
        described["requestBody"] = {"required": True, "content": dict(operation.request)}
    success: Json = {"description": operation.success}
    if operation.answer is not None:
        success["content"] = dict(operation.answer)
    described["responses"] = {str(operation.success_status): success, **_errors(operation)}
    return described


def _errors(operation: Operation) -> Json:
    """Return the answers of errors by status."""
    told: dict[int, list[str]] = {
        _NOT_ACCEPTABLE: ["Accept allows none of the types of this operation"]
    }
    if operation.request is not None:
        told[_UNSUPPORTED] = ["the body has another type"]
        told[422] = ["`422`: the body is empty"]
    codes: Iterable[str] = (
        *operation.errors,
        "schemas_unavailable",
        str(STORE_FAILED),
        str(TIMED_OUT),
    )
    for code in dict.fromkeys(codes):
        if code.isdigit():
            told.setdefault(status_of(int(code)), []).append(f"`{code}`: {TEXTS[int(code)]}")
        else:
            problem = CATALOGUE[code]
            told.setdefault(problem.status, []).append(problem.message)
    for status in (400, 403, 404, 421):
        told.setdefault(status, []).append("the request is malformed, or is not for this server")
    content = {bodies.CONTENT_TYPE: {"schema": reference("Error")}}
    return {
        str(status): {
            "description": "\n".join(f"- {line}" for line in lines),
            "content": content,
        }
        for status, lines in sorted(told.items())
    }
