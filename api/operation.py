"""What an operation of REST is: where it is, what it does, takes and answers.

The resources (`topics`, `messages`, `poll`, …) each have a table of operations. Routes and
the OpenAPI document are both made from these tables, so neither can drift from the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from api.exchange import Handler

Json = dict[str, Any]

SERVICE_ERRORS = ("store_unavailable", "store_corrupt", "stopping", "internal")
"""What every operation that reaches the service may answer."""

NAMESPACE_ERRORS = ("invalid_namespace_name", "not_found", *SERVICE_ERRORS)
TOPIC_ERRORS = ("invalid_topic_name", *NAMESPACE_ERRORS)
BODY_ERRORS = (
    "body_too_slow",
    "request_too_large",
    "invalid_compression",
    "unsupported_content_encoding",
    "queue_full",
)
"""What every operation that reads a body may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    name: str
    """The operationId, and the metrics' label."""
    method: str
    path: str
    handler: Handler
    tag: str
    summary: str
    description: str
    query: tuple[Json, ...] = ()
    """Parameter objects of OpenAPI."""
    request: Mapping[str, Json] | None = None
    """Media type objects of OpenAPI, by media type. None where no body is read."""
    is_body_required: bool = True
    success: str
    """What a 200 means."""
    answer: Mapping[str, Json] | None = None
    """Media type objects of a 200's body; None where it is empty."""
    answer_headers: Mapping[str, Json] = field(default_factory=dict)
    """Header objects of OpenAPI that a 200 may have, by name."""
    errors: tuple[str, ...] = ()
    """Codes of the catalogue."""
    is_hot: bool = False
    """Whether requests for it find it without going through the router."""
    is_compressed: bool = False
    """Whether its answer is compressed for those who take gzip."""
