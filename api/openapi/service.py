"""The OpenAPI document of the service.

The status and the message of an error come from `tms.core.errors.catalogue`; the errors of an
operation are in its row of the table.
"""

import json
from collections.abc import Sequence

from api.http.errors import RETRY_AFTER_S, error_body
from api.http.operation import Json, Operation
from api.openapi.document import ENCODING, SECURITY, Errors, Info, document_of
from api.openapi.group_schemas import SCHEMAS as GROUP_SCHEMAS
from api.openapi.parts import WRITE_POINTER, parameter, path_parameters
from api.openapi.range_schemas import SCHEMAS as RANGE_SCHEMAS
from api.openapi.schedule_schemas import SCHEDULED_ID_EXAMPLE
from api.openapi.schedule_schemas import SCHEMAS as SCHEDULE_SCHEMAS
from api.openapi.schemas import SCHEMAS
from api.openapi.state_schemas import SCHEMAS as STATE_SCHEMAS
from api.openapi.transaction_schemas import SCHEMAS as TRANSACTION_SCHEMAS
from tms import __version__
from tms.core.errors import error_of
from tms.core.errors.catalogue import CATALOGUE
from tms.core.limits import NAME_CHARS_MAX
from tms.wire.json_fields import COUNT, MESSAGE_ID, reference
from tms.wire.json_ids import POINTER
from tms.wire.json_schedules import SCHEDULED_ID
from tms.wire.media_types import PROBLEM_TYPE

_TOO_MANY = 429
_UNAVAILABLE = 503
_TAGS = {
    "Namespaces": "Namespaces, which have topics and may have limits of their own.",
    "Topics": "Topics: named logs of messages.",
    "Messages": "Publishing, polling and streaming messages, now or later.",
    "Transactions": "Transactions: readers see all of their writes or none.",
    "Subscriptions": "Named positions of readers, which the server keeps.",
    "Groups": "Subscriptions that workers share: each message is taken, and acknowledged, by one.",
    "Access": "The rules and tokens of access control.",
    "Server": "Health, metrics, cleanup, and the cluster of the server.",
}
_PATH_PARAMETERS = path_parameters(
    {
        "namespace": {
            "description": (
                "Topics with the same name in different namespaces are different topics."
            ),
            "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}$"},
            "example": "default",
        },
        "topic": {
            "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$"},
            "example": "orders",
        },
        "subscription": {
            "schema": {"type": "string", "pattern": f"^[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}$"},
            "example": "billing",
        },
        "scheduled_id": {
            "description": "The id of a scheduled message.",
            "schema": SCHEDULED_ID,
            "example": SCHEDULED_ID_EXAMPLE,
        },
        "backup": {
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
            "example": "monday",
        },
        "id": {
            "description": "The id of a rule or a token.",
            "schema": {"type": "string", "pattern": "^[a-z0-9]{12}$"},
            "example": "0f3a5c7e9b1d",
        },
        "transaction_id": {
            "description": "The first write pointer of the transaction.",
            "schema": POINTER,
            "example": WRITE_POINTER,
        },
    }
)
_ENCODING = parameter(
    "Content-Encoding",
    "Whether the body is compressed.",
    reference("BodyEncoding"),
    place="header",
)
_SCHEMAS = (
    SCHEMAS,
    STATE_SCHEMAS,
    GROUP_SCHEMAS,
    RANGE_SCHEMAS,
    SCHEDULE_SCHEMAS,
    TRANSACTION_SCHEMAS,
)
_SECURITY_SCHEMES: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `tms auth token`, or a JSON Web Token.",
    },
    "basic": {"type": "http", "scheme": "basic"},
    "certificate": {"type": "mutualTLS"},
}
"""The ways to authenticate."""


def service_document(operations: Sequence[Operation], version: str = __version__) -> Json:
    """Return the OpenAPI document of `operations`, for a server of a version."""
    info = Info(
        title="TMS, a transactional messaging service",
        description=(
            "Publish inside your transaction; poll by id or time. The answer to a poll or a "
            "publish has the format of the request. Errors are always JSON, with a stable `code`."
        ),
        version=version,
        servers=("/",),
        tags=_TAGS,
        parameters={**_PATH_PARAMETERS, ENCODING: _ENCODING},
        named={"MessageId": MESSAGE_ID, "TransactionId": POINTER},
        components={SECURITY: _SECURITY_SCHEMES},
        errors=_errors,
        refusal=_refusal,
    )
    schemas = {name: schema for each in _SCHEMAS for name, schema in each.items()}
    document = document_of(operations, info, schemas)
    document["components"]["examples"] = {
        code: {"value": json.loads(error_body(error_of(code, {})))}
        for code in sorted({code for o in operations for code in o.all_errors})
    }
    return document


def _errors(operation: Operation) -> Errors:
    errors: dict[int, list[tuple[str, str]]] = {}
    for code in operation.all_errors:
        problem = CATALOGUE[code]
        errors.setdefault(problem.status, []).append((code, problem.message))
    return errors


def _refusal(status: int, codes: Sequence[str]) -> Json:
    """Return the answer of a status.

    Client generators create a class for each schema that is not shared, so all have one.
    """
    response: Json = {
        "content": {
            "application/json": {
                "schema": reference("Error"),
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            },
            PROBLEM_TYPE: {"schema": reference("Problem")},
        },
    }
    if status in (_TOO_MANY, _UNAVAILABLE):
        seconds = {"const": RETRY_AFTER_S} if status == _UNAVAILABLE else {**COUNT, "minimum": 1}
        response["headers"] = {
            "Retry-After": {
                "description": "The number of seconds after which to try again.",
                "schema": seconds,
            }
        }
    if status == _TOO_MANY:
        response["headers"]["RateLimit"] = {
            "description": "The remaining requests (`r`), and the seconds until a reset (`t`).",
            "schema": {"type": "string", "examples": ['"tms";r=0;t=7']},
        }
    return response
