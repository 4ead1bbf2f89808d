"""The exceptions of TMS. The default code of each is its only one in the catalogue.

A class with several codes there, or none, names its default code.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from tms.core.credentials import fit_to_be_shown
from tms.core.errors.catalogue import CATALOGUE
from tms.core.printable import printable


class TmsError(Exception):
    """Base of all errors of TMS."""

    code: ClassVar[str] = "internal"

    def __init_subclass__(cls) -> None:
        """Take the code from the catalogue, if the class has one there and does not name it."""
        codes = [problem.code for problem in CATALOGUE.values() if problem.error == cls.__name__]
        if len(codes) == 1:
            [cls.code] = codes

    def __init__(self, code: str | None = None, /, **detail: Any) -> None:
        """Make the error `code` of the catalogue, by default the class's own, with `detail`."""
        self.problem = CATALOGUE[code or self.code]
        self.detail = fit_to_be_shown(detail)
        super().__init__(self.problem.message)

    @property
    def status(self) -> int:
        """The HTTP status for this error."""
        return self.problem.status

    def __str__(self) -> str:
        """Return the static message, then the detail, all printable: it may be a server's."""
        facts = ", ".join(f"{name}={value}" for name, value in self.detail.items())
        return printable(f"{self.problem.message} ({facts})" if facts else self.problem.message)

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


class NotAuthenticated(RequestError):
    """Raised when the caller is not known: credentials are missing, wrong, or have expired."""

    code = "credentials_required"


class NotPermitted(RequestError):
    """Raised when the caller may not do this; `detail` has the action and the resource."""

    code = "not_permitted"


class SchemaRefused(RequestError):
    """Raised when the schema registry refuses; `detail` has its `error_code`."""


class PayloadRefused(RequestError):
    """Raised when a payload or a value does not fit its topic's schemas; `detail` says which."""

    code = "payload_unfit"


class PayloadUndecodable(TmsError):
    """Raised when a message that was read does not match its schema; `detail` has its `id`."""


class TopicNotFound(RequestError):
    """Raised when the topic does not exist, or was deleted."""


class TransactionUnknown(RequestError):
    """Raised when a transaction was never started here, or ended too long ago to be known."""


class SubscriptionNotFound(RequestError):
    """Raised when a topic has no subscription of that name."""


class OwnerNotFound(RequestError):
    """Raised when an owner of transactions is not remembered."""


class PathNotFound(RequestError):
    """Raised when the metadata store has nothing at a path."""


class NamespaceNotDeclared(RequestError):
    """Raised when the settings of a namespace are deleted that has none."""


class GrantNotFound(RequestError):
    """Raised when a rule or a token does not exist."""

    code = "rule_not_found"


class DataLost(RequestError):
    """Raised by a reader when messages have expired before it read them, or their topic is gone."""


class Unavailable(TmsError):
    """Raised when nothing was done and the same call may succeed later."""

    code = "store_unavailable"


class QueueFull(Unavailable):
    """Raised when the publish queue has reached its bound."""


class RateExceeded(Unavailable):
    """Raised when a namespace or a principal has used up a rate; `detail` says until when."""

    code = "publish_rate_exceeded"


class TooManyConnections(Unavailable):
    """Raised when the server has reached its limit of connections."""


class TooManyTransactions(Unavailable):
    """Raised when the limit of transactions in progress is reached."""

    code = "too_many_transactions"


class DebugBusy(Unavailable):
    """Raised when the server is still making another debug report."""


class StoreUnavailable(Unavailable):
    """Raised when the store cannot be read or written now: a full disk, a dead server."""


class Stopping(Unavailable):
    """Raised when the service is shutting down."""


class RulesUnavailable(Unavailable):
    """Raised when the last known rules and tokens are too old for a decision."""


class SchemasUnavailable(Unavailable):
    """Raised when the schema registry did not answer."""


class MetadataUnavailable(Unavailable):
    """Raised when the metadata store could not be reached; a write may have been carried out."""


class NoLeader(Unavailable):
    """Raised when a cluster has no leader now, or this server does not lead it any more."""


class MetadataClosed(Unavailable):
    """Raised when this process has closed a metadata store, or something that uses one."""


class ServerUnreachable(Unavailable):
    """Raised by the client when no connection could be made: the request was not sent."""


class OutcomeUnknown(TmsError):
    """Raised when a request may have been carried out, or not: a write or its answer was lost."""


class AnswerLost(OutcomeUnknown):
    """Raised by the client when the answer to a request that only reads did not arrive."""


class ServerSilent(OutcomeUnknown):
    """Raised by the client when a server accepts connections but has never answered."""


class NotTms(RequestError):
    """Raised by the client when the answer is not from TMS; `detail` has the answer."""


class StoreError(TmsError):
    """Raised when a store cannot be opened until an operator acts."""

    code = "store_corrupt"


class StoreLocked(StoreError):
    """Raised when the data folder is open already; `detail` names the process that holds it."""

    code = "store_locked"


class StoreNotFound(StoreError):
    """Raised when there is no store in a folder, and the caller may not create one."""


class FolderUnusable(StoreError):
    """Raised when a data folder cannot be written now; `detail` says why."""


class CopyRefused(StoreError):
    """Raised when a store cannot be copied into another; `detail` says why, and what to do."""


class StoreCorrupt(StoreError):
    """Raised when stored bytes are damaged. Nothing is repaired or dropped silently."""


class StoreFileLost(StoreCorrupt):
    """Raised when a file of a data folder is missing or too short; `detail` names it."""


class ValueUnreadable(StoreCorrupt):
    """Raised when a value of the metadata store is not valid at its path."""


class StoreSharded(StoreError):
    """Raised when a store with several shards, or one of these, is opened as a whole store.

    `detail` has `shards`, how many there are, and the rule `by`; with `shard` it is only that one.
    """

    code = "store_sharded"


class StoreFormatUnknown(StoreError):
    """Raised when the data folder was written in a format this version does not know."""


class InternalError(TmsError):
    """Raised when the server itself is at fault."""


def error_of(code: str, detail: Mapping[str, Any]) -> TmsError:
    """Return the error that `code` and `detail` describe, in the class of the catalogue.

    A code that this version does not know, from a newer server, becomes an `InternalError`.
    """
    problem = CATALOGUE.get(code)
    if problem is None:
        return InternalError(
            "internal", code=code, **{k: v for k, v in detail.items() if k != "code"}
        )
    return class_of(code)(code, **detail)


def class_of(code: str) -> type[TmsError]:
    """Return the class of the error `code`. Raises `KeyError` if there is no such code."""
    return _classes()[CATALOGUE[code].error]


def _with_kinds(error: type[TmsError]) -> Iterator[type[TmsError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _with_kinds(kind)


@cache
def _classes() -> dict[str, type[TmsError]]:
    return {error.__name__: error for error in _with_kinds(TmsError)}
