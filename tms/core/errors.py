"""Every error of TMS: who is at fault, a stable code, an HTTP status.

TmsError
├── RequestError                  the caller must change something; nothing was done
│   ├── InvalidRequest            400 and its kin: one class, many codes
│   ├── TooLarge                  413
│   ├── TopicNotFound             404
│   ├── TransactionUnknown        404
│   ├── SubscriptionNotFound      404
│   └── Conflict                  409: the request is well formed, the state forbids it
│       ├── TopicExists
│       ├── TransactionExpired
│       ├── TransactionNotInProgress
│       ├── TransactionConflict
│       ├── TransactionDuplicate
│       ├── OwnerBusy
│       ├── InvalidTruncateTime
│       ├── TransactionsElsewhere
│       ├── SubscriptionExists
│       ├── SubscriptionMoved
│       └── RollbackRefused
├── Unavailable                   503: not done; the same call may succeed later
│   ├── QueueFull
│   ├── TooManyTransactions
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


class TransactionUnknown(RequestError):
    """Raised when a transaction was never started here, or ended too long ago to be known."""

    code = "transaction_unknown"


class TransactionNotInProgress(Conflict):
    """Raised when a transaction has ended; `detail` has its status."""

    code = "transaction_not_in_progress"


class TransactionConflict(Conflict):
    """Raised when a transaction that committed meanwhile changed the same; run it again."""

    code = "transaction_conflict"


class TransactionDuplicate(Conflict):
    """Raised when the owner's sequence was committed before: the work is done."""

    code = "transaction_duplicate"


class OwnerBusy(Conflict):
    """Raised when an older transaction of the same owner is still open."""

    code = "owner_busy"


class InvalidTruncateTime(Conflict):
    """Raised when a transaction from before that time is still in progress."""

    code = "invalid_truncate_time"


class TransactionsElsewhere(Conflict):
    """Raised when this server takes the write pointers of another transaction manager."""

    code = "transactions_elsewhere"


class SubscriptionNotFound(RequestError):
    """Raised when a topic has no subscription of that name."""

    code = "subscription_not_found"


class SubscriptionExists(Conflict):
    """Raised when a subscription is created that exists already."""

    code = "subscription_exists"


class SubscriptionMoved(Conflict):
    """Raised when a position has another version than expected; `detail` gives both."""

    code = "subscription_moved"


class RollbackRefused(Conflict):
    """Raised when a range to roll back holds only entries of other writers."""

    code = "rollback_refused"


class Unavailable(TmsError):
    """Raised when nothing was done and the same call may succeed later."""

    code = "store_unavailable"


class QueueFull(Unavailable):
    """Raised when the publish queue has reached its bound."""

    code = "queue_full"


class TooManyTransactions(Unavailable):
    """Raised when as many transactions are in progress as may be."""

    code = "too_many_transactions"


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
    Problem(
        "invalid_transaction_id",
        400,
        "A transaction id is a positive 64-bit number.",
        InvalidRequest,
    ),
    Problem(
        "invalid_timeout",
        400,
        "A timeout is a whole number of seconds, from 1 to the server's largest.",
        InvalidRequest,
    ),
    Problem(
        "invalid_owner",
        400,
        "An owner has 1 to 255 characters; a sequence is 0 or more, and needs an owner.",
        InvalidRequest,
    ),
    Problem(
        "invalid_time",
        400,
        "A time is in milliseconds since 1970, zero or more.",
        InvalidRequest,
    ),
    Problem(
        "invalid_subscription_name",
        400,
        "A subscription's name has 1 to 255 letters, digits, _, - or dots.",
        InvalidRequest,
    ),
    Problem("not_found", 404, "There is nothing at this path.", InvalidRequest),
    Problem("topic_not_found", 404, "The topic does not exist.", TopicNotFound),
    Problem(
        "transaction_unknown",
        404,
        "The transaction was never started here, or ended too long ago.",
        TransactionUnknown,
    ),
    Problem(
        "subscription_not_found",
        404,
        "The topic has no subscription of this name.",
        SubscriptionNotFound,
    ),
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
        "transaction_not_in_progress",
        409,
        "The transaction has ended.",
        TransactionNotInProgress,
    ),
    Problem(
        "transaction_conflict",
        409,
        "A transaction that committed meanwhile changed the same; run this one again.",
        TransactionConflict,
    ),
    Problem(
        "transaction_duplicate",
        409,
        "The owner's sequence was committed before.",
        TransactionDuplicate,
    ),
    Problem(
        "owner_busy",
        409,
        "An older transaction of this owner is open; fence it or join it.",
        OwnerBusy,
    ),
    Problem(
        "invalid_truncate_time",
        409,
        "A transaction from before that time is in progress.",
        InvalidTruncateTime,
    ),
    Problem(
        "transactions_elsewhere",
        409,
        "This server takes the write pointers of another transaction manager.",
        TransactionsElsewhere,
    ),
    Problem(
        "subscription_exists",
        409,
        "The topic has a subscription of this name already.",
        SubscriptionExists,
    ),
    Problem(
        "subscription_moved",
        409,
        "The subscription has moved on from the version that was expected.",
        SubscriptionMoved,
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
    Problem("too_many_changes", 413, "The transaction has more changes than one may.", TooLarge),
    Problem(
        "too_many_subscriptions",
        413,
        "The topic has as many subscriptions as one may.",
        TooLarge,
    ),
    Problem(
        "too_many_checkpoints",
        413,
        "The transaction has more checkpoints than one may.",
        TooLarge,
    ),
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
        "too_many_transactions",
        503,
        "Too many transactions are in progress; try again.",
        TooManyTransactions,
    ),
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
