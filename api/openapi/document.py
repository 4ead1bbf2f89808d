"""Builds an OpenAPI 3.1 document from a table of operations. Pure: operations in, document out."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from api.http.operation import Json, Operation
from tms import __version__

ENCODING = "content_encoding"
"""The shared parameter of operations with a body, if an interface has it."""
SECURITY = "securitySchemes"
"""The component with the ways to authenticate, if an interface has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The parts of an interface's document other than its operations and schemas."""

    title: str
    description: str
    version: str = __version__
    servers: tuple[str, ...]
    tags: tuple[str, ...]
    parameters: Json
    """The parameters of paths, and others that operations share, by name."""
    components: Json
    errors: Callable[[Operation], Json]
    """Returns the error answers of an operation, by status."""


def document_of(operations: Sequence[Operation], info: Info, schemas: Json) -> Json:
    """Return the OpenAPI document that describes `operations`."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, info)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": info.title,
            "version": info.version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": info.description,
        },
        "servers": [{"url": url} for url in info.servers],
        "tags": [{"name": tag} for tag in info.tags],
        "paths": paths,
        "components": {**info.components, "schemas": schemas, "parameters": info.parameters},
    }


def _operation(operation: Operation, info: Info) -> Json:
    names = re.findall(r"{(\w+)}", operation.path)
    parameters: list[Json] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    parameters += operation.query
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.action is not None and SECURITY in info.components:
        described["security"] = [*({name: []} for name in info.components[SECURITY]), {}]
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
        headers["Content-Encoding"] = {
            "description": "Present if the request accepts gzip.",
            "schema": {"const": "gzip"},
        }
    if headers:
        success["headers"] = headers
    described["parameters"] = parameters
    described["responses"] = {str(operation.success_status): success, **info.errors(operation)}
    return described
