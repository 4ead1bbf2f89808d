"""Builds an OpenAPI 3.1 document from a table of operations. Pure: operations in, document out.

An error is an answer of its status, which all operations share; the description beside an
operation's reference to it lists the codes of that operation.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from api.http.operation import Json, Operation
from api.openapi.explicit import explicit
from api.openapi.parts import component_of
from tms import __version__

ENCODING = "content_encoding"
"""The shared parameter of operations with a body, if an interface has it."""
SECURITY = "securitySchemes"
"""The component with the ways to authenticate, if an interface has it."""
_CONTACT = {"name": "The authors of TMS"}
_HEADERS: Json = {
    "Compressed": {
        "description": "Present if the request accepts gzip.",
        "schema": {"const": "gzip"},
    },
    "EntityTag": {
        "description": "For `If-None-Match`: the answer is 304 as long as this is the version.",
        "schema": {"type": "string"},
    },
}
Errors = Mapping[int, Sequence[tuple[str, str]]]
"""The codes of errors with their meanings, by status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The parts of an interface's document other than its operations and schemas."""

    title: str
    description: str
    version: str = __version__
    servers: tuple[str, ...]
    tags: Mapping[str, str]
    """Their descriptions by their names, in the order of the document."""
    parameters: Json
    """The parameters of paths, and others that operations share, by name."""
    components: Json
    named: Json
    """Schemas that are references wherever they occur, by their names."""
    errors: Callable[[Operation], Errors]
    """Returns the errors of an operation."""
    refusal: Callable[[int, Sequence[str]], Json]
    """Returns the answer of a status with codes, without its description."""


def document_of(operations: Sequence[Operation], info: Info, schemas: Json) -> Json:
    """Return the OpenAPI document that describes `operations`."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, info)
    document: Json = explicit(
        {
            "openapi": "3.1.0",
            "info": {
                "title": info.title,
                "version": info.version,
                "contact": _CONTACT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
                "description": info.description,
            },
            "servers": [{"url": url} for url in info.servers],
            **_security(info),
            "tags": [{"name": tag, "description": text} for tag, text in info.tags.items()],
            "paths": paths,
            "components": {
                **info.components,
                "schemas": schemas,
                "responses": _shared_errors(operations, info),
                "headers": _HEADERS,
                "parameters": info.parameters,
            },
        },
        info.named,
    )
    document["components"]["schemas"].update(info.named)
    return document


def _security(info: Info) -> Json:
    """Return the ways to authenticate; the last one is none, for a server that asks nobody."""
    if SECURITY not in info.components:
        return {}
    return {"security": [*({name: []} for name in info.components[SECURITY]), {}]}


def encoded(document: Json) -> bytes:
    """Return a document as the server sends it, without spaces, because it is long."""
    return json.dumps(document, separators=(",", ":")).encode()


def _operation(operation: Operation, info: Info) -> Json:
    names = re.findall(r"{(\w+)}", operation.path)
    parameters: list[Json] = [
        {"$ref": f"#/components/parameters/{component_of(name)}"} for name in names
    ]
    parameters += operation.query
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.action is None and SECURITY in info.components:
        described["security"] = []
    if operation.request is not None:
        if ENCODING in info.parameters:
            parameters.append({"$ref": f"#/components/parameters/{ENCODING}"})
        described["requestBody"] = {
            "required": operation.is_body_required,
            "content": dict(operation.request),
        }
    success: Json = {"description": operation.success}
    if operation.answer is not None:
        success["content"] = dict(operation.answer)
    headers = dict(operation.answer_headers)
    if operation.is_compressed:
        headers["Content-Encoding"] = {"$ref": "#/components/headers/Compressed"}
    if operation.is_tagged:
        headers["ETag"] = {"$ref": "#/components/headers/EntityTag"}
    if headers:
        success["headers"] = headers
    described["parameters"] = parameters
    described["responses"] = {str(operation.success_status): success}
    for status, problems in sorted(info.errors(operation).items()):
        codes = dict.fromkeys(code for code, _ in problems)
        described["responses"][str(status)] = {
            "$ref": f"#/components/responses/{_name_of(status)}",
            "description": ", ".join(f"`{code}`" for code in codes),
        }
    return described


def _name_of(status: int) -> str:
    return f"Error{status}"


def _shared_errors(operations: Sequence[Operation], info: Info) -> Json:
    """Return the answers of errors, each with all codes that any operation has for its status."""
    shared: dict[int, dict[tuple[str, str], None]] = {}
    for operation in operations:
        for status, problems in info.errors(operation).items():
            shared.setdefault(status, {}).update(dict.fromkeys(problems))
    return {
        _name_of(status): {
            "description": "\n".join(f"- `{code}`: {text}" for code, text in sorted(problems)),
            **info.refusal(status, sorted({code for code, _ in problems})),
        }
        for status, problems in sorted(shared.items())
    }
