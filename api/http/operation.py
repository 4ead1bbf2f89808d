"""An operation of REST: its place, its purpose, its request and its answers.

The resources (`topics`, `messages`, `poll`, …) each have a table of operations. Routes and
the OpenAPI document are both made from these tables, so neither can drift from the other.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from api.http.door.guarded import Guarded
from api.http.exchange import OK, Exchange

Json = dict[str, Any]
Handler = Callable[[Exchange], Awaitable[None]]
"""Reads the request from the exchange and answers it, or raises."""


RESOURCES = "/v1/"
"""The prefix of all paths except health, metrics and docs."""

SERVICE_ERRORS = ("store_unavailable", "outcome_unknown", "store_corrupt", "stopping", "internal")
"""The errors of every operation that uses the service."""

REQUEST_ERRORS = (
    "malformed_request",
    "cross_site",
    "expectation_failed",
    "host_not_allowed",
    "head_too_large",
    "too_many_connections",
)
"""Errors that every request may get, on any path."""

KNOWN_CALLER_ERRORS = (
    "credentials_required",
    "credentials_invalid",
    "not_permitted",
    "principal_rate_exceeded",
    "rules_unavailable",
)
"""The errors of a request if authentication is on."""

NAME_ERRORS: Mapping[str, str] = {
    "namespace": "invalid_namespace_name",
    "topic": "invalid_topic_name",
    "subscription": "invalid_subscription_name",
    "transaction_id": "invalid_transaction_id",
}
"""The error for an invalid name in the path."""
BODY_ERRORS = (
    "body_too_slow",
    "request_too_large",
    "request_too_compressed",
    "invalid_compression",
    "unsupported_content_encoding",
    "queue_full",
)
"""Errors of every operation that reads a body."""
JSON_ERRORS = ("unsupported_content_type", "not_acceptable")
"""Errors of an operation that accepts and returns only JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Guarded):
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    tag: str
    summary: str
    description: str
    query: tuple[Json, ...] = ()
    """Parameter objects of OpenAPI."""
    request: Mapping[str, Json] | None = None
    """Media type objects of OpenAPI, by media type. None if no body is read."""
    is_body_required: bool = True
    success: str
    """The meaning of success."""
    success_status: int = OK
    answer: Mapping[str, Json] | None = None
    """Media type objects of a 200's body; None if it is empty."""
    answer_headers: Mapping[str, Json] = field(default_factory=dict)
    """Header objects of OpenAPI that a 200 may have, by name."""
    errors: tuple[str, ...] = ()
    """Codes of the catalogue, without those that `all_errors` derives."""
    is_taskless: bool = False
    """Whether its handler starts without a task (`api.http.protocol.taskless`): its first await is
    a future, and it uses timeouts only after its second."""
    is_probe: bool = False
    """Whether it is answered even on a connection beyond `connections_max`."""
    is_page: bool = False
    """Whether people open it in a browser: then other sites may link to it."""
    is_compressed: bool = False
    """Whether its answer is compressed for clients that accept gzip."""
    is_endless: bool = False
    """Whether its answer may continue for as long as the client stays."""
    is_tagged: bool = False
    """Whether its answer has an `ETag`."""
    takes_any_query: bool = False
    """Whether unknown names in its query are ignored."""

    @property
    def known_parameters(self) -> tuple[str, ...] | None:
        """The names that its query may have; None if it may have any."""
        if self.takes_any_query or not self.path.startswith(RESOURCES):
            return None
        return tuple(parameter["name"] for parameter in self.query)

    @property
    def all_errors(self) -> tuple[str, ...]:
        """Its errors, and those that follow from its path, body, query and caller."""
        names = [field for _, field, _, _ in Formatter().parse(self.path) if field]
        of_path = [NAME_ERRORS[name] for name in names if name in NAME_ERRORS]
        if names:
            of_path.append("not_found")
        of_service = SERVICE_ERRORS if self.path.startswith(RESOURCES) else ("internal",)
        of_body = () if self.request is None else BODY_ERRORS
        of_query = () if self.known_parameters is None else ("unknown_query_parameter",)
        of_caller = () if self.action is None else KNOWN_CALLER_ERRORS
        rest = (*of_path, *of_service, *of_body, *of_query, *of_caller, *REQUEST_ERRORS)
        return tuple(dict.fromkeys((*self.errors, *rest)))
