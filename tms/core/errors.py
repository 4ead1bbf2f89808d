"""Every error of TMS: who is at fault, a stable code, an HTTP status.

TmsError
├── RequestError                  the caller must change something; nothing was done
│   ├── InvalidRequest            400 and its kin: one class, many codes
│   ├── TooLarge                  413
│   ├── TopicNotFound             404
│   └── Conflict                  409: the request is well formed, the state forbids it
│       ├── TopicExists
│       ├── TransactionExpired
│       └── RollbackRefused
├── Unavailable                   503: not done; the same call may succeed later
│   ├── QueueFull
│   ├── StoreUnavailable
│   ├── Stopping
│   └── ServerUnreachable         raised by the client only
├── OutcomeUnknown                raised by the client only: it may or may not have been done
├── StoreError                    an operator must act: the folder cannot be opened
│   ├── StoreLocked
│   ├── StoreCorrupt
│   └── StoreFormatUnknown
└── InternalError                 500: our fault

The text of an error is static; what varies is in `detail`, so that errors can be counted and
grouped by code. `CATALOGUE`, at the end, has each code once: REST bodies, the OpenAPI document and
the client's exceptions are all made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


class TmsError(Exception):
    """Base of all errors of TMS."""

    code: ClassVar[str] = "internal"

    def __init__(self, code: str | None = None, /, **detail: Any) -> None:
        """Make the error `code` of the catalogue, by default the class's own, with `detail`."""
        self.problem = CATALOGUE[code or self.code]
        self.detail: Mapping[str, Any] = detail
        super().__init__(self.problem.message)

    @property
    def status(self) -> int:
        """The HTTP status that says this error best."""
        return self.problem.status

    def __str__(self) -> str:
        """Return the static message, then the detail."""
        facts = ", ".join(f"{name}={value}" for name, value in self.detail.items())
        return f"{self.problem.message} ({facts})" if facts else self.problem.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the error travel between processes with its detail."""
        return error_of, (self.problem.code, dict(self.detail))


class RequestError(TmsError):
    """Raised when the caller must change the request; nothing was done."""

    code = "invalid_body"


class InvalidRequest(RequestError):
    """Raised when a name, property, body, id, limit or header cannot be understood."""


class TooLarge(RequestError):
    """Raised when a request or message is over a configured cap, which `detail` names."""

    code = "request_too_large"


class TopicNotFound(RequestError):
    """Raised when the topic does not exist, or was deleted."""

    code = "topic_not_found"


class Conflict(RequestError):
    """Raised when a well formed request is forbidden by the present state."""

    code = "topic_exists"


class TopicExists(Conflict):
    """Raised when a topic is created that exists already."""


class TransactionExpired(Conflict):
    """Raised when a write pointer is older than the longest lifetime of a transaction."""

    code = "transaction_expired"


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds only entries of other writers."""

    code = "rollback_refused"


class Unavailable(TmsError):
    """Raised when nothing was done and the same call may succeed later."""

    code = "store_unavailable"


class QueueFull(Unavailable):
    """Raised when the publish queue has reached its bound."""

    code = "queue_full"


class StoreUnavailable(Unavailable):
    """Raised when the store cannot be read or written now: a full disk, a dead server."""


class Stopping(Unavailable):
    """Raised when the service is shutting down."""

    code = "stopping"


class ServerUnreachable(Unavailable):
    """Raised by the client when no connection could be made: the request was not sent."""

    code = "server_unreachable"


class OutcomeUnknown(TmsError):
    """Raised by the client when the connection broke after the request was sent."""

    code = "outcome_unknown"


class StoreError(TmsError):
    """Raised when a store cannot be opened until an operator acts."""

    code = "store_corrupt"


class StoreLocked(StoreError):
    """Raised when another process holds the data folder; `detail` names it."""

    code = "store_locked"


class StoreCorrupt(StoreError):
    """Raised when stored bytes are damaged. Nothing is repaired or dropped silently."""


class StoreFormatUnknown(StoreError):
    """Raised when the data folder was written in a format this version does not know."""

    code = "store_format_unknown"


class InternalError(TmsError):
    """Raised when the server itself is at fault."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the catalogue: one thing that can go wrong."""

    code: str
    status: int
    message: str
    error: type[TmsError]


def _catalogue(*problems: Problem) -> dict[str, Problem]:
    by_code = {problem.code: problem for problem in problems}
    if len(by_code) != len(problems):
        raise AssertionError("a code stands twice in the catalogue")
    return by_code


# Codes are part of the REST interface: never change or reuse one.
CATALOGUE = _catalogue(
    Problem(
        "invalid_topic_name",
        400,
        "A topic's name has 1 to 255 letters, digits, _ or -.",
        InvalidRequest,
    ),
    Problem(
        "invalid_namespace_name",
        400,
        "A namespace's name has 1 to 255 letters, digits or _.",
        InvalidRequest,
    ),
    Problem(
        "invalid_properties",
        400,
        "Topic properties are a JSON object whose values are strings or numbers.",
        InvalidRequest,
    ),
    Problem(
        "invalid_ttl",
        400,
        "A topic's ttl is a whole number of seconds from 1 to 2147483647.",
        InvalidRequest,
    ),
    Problem("invalid_body", 400, "The body is not what this endpoint takes.", InvalidRequest),
    Problem(
        "invalid_compression",
        400,
        "The body is not valid gzip, as Content-Encoding says it is.",
        InvalidRequest,
    ),
    Problem(
        "invalid_message_id",
        400,
        "A message id is 20 bytes, written as 40 hexadecimal digits.",
        InvalidRequest,
    ),
    Problem(
        "invalid_start_time",
        400,
        "A start time is in milliseconds since 1970, zero or more.",
        InvalidRequest,
    ),
    Problem("invalid_limit", 400, "A limit is a whole number, 1 or more.", InvalidRequest),
    Problem("invalid_wait", 400, "A wait is a number of seconds, zero or more.", InvalidRequest),
    Problem(
        "invalid_transaction",
        400,
        "The transaction is not a Tephra TransactionCodec encoding.",
        InvalidRequest,
    ),
    Problem(
        "invalid_write_pointer",
        400,
        "A transaction write pointer is a positive 64-bit number: milliseconds x 1000000.",
        InvalidRequest,
    ),
    Problem(
        "invalid_rollback_range",
        400,
        "A rollback takes the very body that the publish answered.",
        InvalidRequest,
    ),
    Problem(
        "empty_publish",
        400,
        "Publishing no messages is for a transaction whose messages were stored before.",
        InvalidRequest,
    ),
    Problem(
        "invalid_store",
        400,
        "Storing takes a transaction write pointer and at least one message.",
        InvalidRequest,
    ),
    Problem("not_found", 404, "There is nothing at this path.", InvalidRequest),
    Problem("topic_not_found", 404, "The topic does not exist.", TopicNotFound),
    Problem("method_not_allowed", 405, "This path does not take this method.", InvalidRequest),
    Problem("body_too_slow", 408, "The body did not arrive in time.", InvalidRequest),
    Problem("topic_exists", 409, "A topic of this name exists already.", TopicExists),
    Problem(
        "transaction_expired",
        409,
        "The transaction is older than the longest lifetime of a transaction.",
        TransactionExpired,
    ),
    Problem(
        "rollback_refused",
        409,
        "The range holds only entries of other writers.",
        RollbackRefused,
    ),
    Problem("request_too_large", 413, "The body is over the cap for a request.", TooLarge),
    Problem("message_too_large", 413, "A message is over the cap for a message.", TooLarge),
    Problem("too_many_messages", 413, "The request has more messages than one may.", TooLarge),
    Problem(
        "unsupported_content_type",
        415,
        "Send Content-Type: application/json or avro/binary.",
        InvalidRequest,
    ),
    Problem(
        "unsupported_content_encoding",
        415,
        "The only Content-Encoding taken is gzip.",
        InvalidRequest,
    ),
    Problem("internal", 500, "The server failed; its log says why.", InternalError),
    Problem("queue_full", 503, "Too much is waiting to be written; try again.", QueueFull),
    Problem(
        "store_unavailable",
        503,
        "The store cannot be used now; try again.",
        StoreUnavailable,
    ),
    Problem("stopping", 503, "The service is stopping; try again.", Stopping),
    Problem("server_unreachable", 503, "No connection to the server.", ServerUnreachable),
    Problem(
        "outcome_unknown",
        504,
        "The connection broke before the answer; the request may have been carried out.",
        OutcomeUnknown,
    ),
    Problem("store_locked", 500, "Another process holds the data folder.", StoreLocked),
    Problem("store_corrupt", 500, "Stored bytes are damaged.", StoreCorrupt),
    Problem(
        "store_format_unknown",
        500,
        "The data folder has a format that this version does not know.",
        StoreFormatUnknown,
    ),
)


def error_of(code: str, detail: Mapping[str, Any]) -> TmsError:
    """Return the error that `code` and `detail` describe, in the class of the catalogue.

    A code that this version does not know, from a newer server, becomes an `InternalError`.
    """
    problem = CATALOGUE.get(code)
    if problem is None:
        return InternalError(
            "internal", code=code, **{k: v for k, v in detail.items() if k != "code"}
        )
    return problem.error(code, **detail)
