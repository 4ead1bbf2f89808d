"""Builds the OpenAPI 3.1 document from the table of operations and the catalogue of errors.

Pure: operations in, document out. What an error is (status, message) comes from
`tms.core.errors.catalogue`; which ones an operation may answer is in its row of the table.
"""

import json
import re
from collections.abc import Iterable, Sequence

from api.http.errors import RETRY_AFTER_S, error_body
from api.http.operation import Json, Operation
from api.openapi.parts import WRITE_POINTER
from api.openapi.range_schemas import SCHEMAS as RANGE_SCHEMAS
from api.openapi.schemas import SCHEMAS
from api.openapi.transaction_schemas import SCHEMAS as TRANSACTION_SCHEMAS
from tms import __version__
from tms.core.errors import error_of
from tms.core.errors.catalogue import CATALOGUE, Problem
from tms.core.limits import NAME_CHARS_MAX
from tms.wire.json_fields import COUNT, reference
from tms.wire.json_ids import POINTER

_TOO_MANY = 429
_UNAVAILABLE = 503
_TAGS = ("Namespaces", "Topics", "Messages", "Transactions", "Subscriptions", "Access", "Server")
_PATH_PARAMETERS: Json = {
    "namespace": {
        "name": "namespace",
        "in": "path",
        "required": True,
        "description": "Topics of one name in different namespaces are different topics.",
        "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}$"},
        "example": "default",
    },
    "topic": {
        "name": "topic",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$"},
        "example": "orders",
    },
    "subscription": {
        "name": "subscription",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}$"},
        "example": "billing",
    },
    "id": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The id of a rule or a token.",
        "schema": {"type": "string", "pattern": "^[a-z0-9]{12}$"},
        "example": "0f3a5c7e9b1d",
    },
    "transaction_id": {
        "name": "transaction_id",
        "in": "path",
        "required": True,
        "description": "The first write pointer of the transaction.",
        "schema": POINTER,
        "example": WRITE_POINTER,
    },
}
SECURITY_SCHEMES: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `tms auth token`, or a JSON Web Token.",
    },
    "basic": {"type": "http", "scheme": "basic"},
    "certificate": {"type": "mutualTLS"},
}
"""How callers say who they are, where they have to."""
_ENCODING_PARAMETER: Json = {
    "name": "Content-Encoding",
    "in": "header",
    "description": "Whether the body is compressed.",
    "schema": reference("ContentEncoding"),
}


def document_of(operations: Sequence[Operation], version: str = __version__) -> Json:
    """Return the OpenAPI document that describes `operations` of a server of a version."""
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TMS, a transactional messaging service",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "Publish inside your transaction; poll by id or time. The answer to a poll or a "
                "publish has the format of the request. Errors are always JSON, with a stable "
                "`code`."
            ),
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in _TAGS],
        "paths": paths,
        "components": {
            "securitySchemes": SECURITY_SCHEMES,
            "schemas": {**SCHEMAS, **RANGE_SCHEMAS, **TRANSACTION_SCHEMAS},
            "parameters": {**_PATH_PARAMETERS, "content_encoding": _ENCODING_PARAMETER},
            "examples": {
                code: {"value": json.loads(error_body(error_of(code, {})))}
                for code in sorted({code for o in operations for code in o.all_errors})
            },
        },
    }


def _operation(operation: Operation) -> Json:
    names = re.findall(r"{(\w+)}", operation.path)
    parameters: list[Json] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    parameters += operation.query
    described: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.action is not None:
        described["security"] = [{name: []} for name in ("bearer", "basic", "certificate")] + [{}]
    if operation.request is not None:
        parameters.append({"$ref": "#/components/parameters/content_encoding"})
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
    described["responses"] = {
        str(operation.success_status): success,
        **_error_responses(operation.all_errors),
    }
    return described


def _error_responses(codes: Iterable[str]) -> Json:
    problems = [CATALOGUE[code] for code in dict.fromkeys(codes)]
    statuses = sorted({problem.status for problem in problems})
    return {
        str(status): _error_response([p for p in problems if p.status == status])
        for status in statuses
    }


def _error_response(problems: list[Problem]) -> Json:
    """Return the answer of one status.

    Its codes are told in words, because a generator of clients makes a class of each schema that is
    not a shared one.
    """
    response: Json = {
        "description": "\n".join(f"- `{p.code}`: {p.message}" for p in problems),
        "content": {
            "application/json": {
                "schema": reference("Error"),
                "examples": {p.code: {"$ref": f"#/components/examples/{p.code}"} for p in problems},
            }
        },
    }
    if problems[0].status in (_TOO_MANY, _UNAVAILABLE):
        is_fixed = problems[0].status == _UNAVAILABLE
        seconds = {"const": RETRY_AFTER_S} if is_fixed else {**COUNT, "minimum": 1}
        response["headers"] = {
            "Retry-After": {
                "description": "The number of seconds after which to try again.",
                "schema": seconds,
            }
        }
    return response
