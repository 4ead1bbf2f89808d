"""What the bodies of transactions and subscriptions say, whatever their format.

Which bytes say it is in `avro_transactions` and `json_transactions`. Requests without a body are
not here, nor the answers to GET, which are JSON in any case (`json_reports`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tms.core.commits import CommitRequest
from tms.core.errors import InvalidRequest
from tms.core.limits import INT64_MAX
from tms.core.messaging import AllPublished
from tms.core.subscriptions import SubscriptionPosition
from tms.core.transaction import Transaction
from tms.core.transactions import StartRequest
from tms.wire.caps import Cap
from tms.wire.transaction_codec import encode_transaction


class StartedTransaction(NamedTuple):
    """The answer to start and to checkpoint."""

    transaction_id: int
    write_pointer: int
    read_pointer: int
    transaction: bytes | None = None
    """The whole of it in the encoding of `tms.wire.transaction_codec`, unless not asked for."""


class Truncation(NamedTuple):
    """The body of a truncation of the invalid list: one of both."""

    ids: Sequence[int] | None = None
    before_ms: int | None = None


class PublishAllRequest(NamedTuple):
    """The body of a publish to several topics."""

    topics: Mapping[str, Sequence[bytes]]
    """Messages by the topic's name."""
    owner: str | None = None
    sequence: int | None = None


class Move(NamedTuple):
    """The body of an advance."""

    after: bytes
    expected_version: int


def started(transaction: Transaction, *, with_codec: bool) -> StartedTransaction:
    """Return what is answered of a transaction."""
    return StartedTransaction(
        transaction.transaction_id,
        transaction.write_pointer,
        transaction.read_pointer,
        encode_transaction(transaction) if with_codec else None,
    )


def check_truncation(asked: Truncation) -> Truncation:
    """Return what is asked. Raises `InvalidRequest`, also where it is not one of both."""
    if (asked.ids is None) == (asked.before_ms is None):
        raise InvalidRequest("invalid_body", expected="ids or before_ms")
    for pointer in asked.ids or ():
        check_transaction_id(pointer)
    if asked.before_ms is not None and not 0 <= asked.before_ms <= INT64_MAX:
        raise InvalidRequest("invalid_time", before_ms=asked.before_ms)
    return asked


def check_transaction_id(transaction_id: int) -> int:
    """Return the id. Raises `InvalidRequest` (invalid_transaction_id) where it can be none."""
    if not 0 < transaction_id <= INT64_MAX:
        raise InvalidRequest("invalid_transaction_id", transaction_id=transaction_id)
    return transaction_id


class TransactionBodies(Protocol):
    """The bodies of transactions in a format. A decode may raise `InvalidRequest`."""

    def decode_start(self, body: bytes) -> StartRequest:
        """Return what a start asks. An empty body asks for the defaults."""
        ...

    def encode_started(self, answer: StartedTransaction) -> bytes:
        """Return the answer to start and to checkpoint."""
        ...

    def decode_changes(self, body: bytes, cap: Cap) -> Sequence[bytes]:
        """Return the changes of a can-commit. Raises `TooLarge`."""
        ...

    def decode_commit(self, body: bytes) -> CommitRequest:
        """Return what a commit is to do besides. An empty body: nothing."""
        ...

    def encode_status(self, status: str) -> bytes:
        """Return the answer to an abort."""
        ...

    def decode_truncation(self, body: bytes) -> Truncation:
        """Return what is to be taken off the invalid list, checked."""
        ...

    def encode_truncated(self, count: int) -> bytes:
        """Return the answer to a truncation."""
        ...

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        ...

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to it."""
        ...


class SubscriptionBodies(Protocol):
    """The bodies of subscriptions in a format. A decode may raise `InvalidRequest`."""

    def decode_position(self, body: bytes) -> bytes | None:
        """Return where a new subscription starts. An empty body: before the oldest message."""
        ...

    def decode_move(self, body: bytes) -> Move:
        """Return where a subscription is to be moved, and from which version."""
        ...

    def encode_subscription(self, subscription: SubscriptionPosition) -> bytes:
        """Return what is answered of a subscription."""
        ...
