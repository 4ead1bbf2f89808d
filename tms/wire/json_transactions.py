"""Bodies of transactions, both ways: JSON only.

The answers to GET are in `json_reports`.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.services.commits import NOTHING, CommitRequest, Stored
from tms.core.services.transactions import IfOpen, StartRequest, TransactionStatus
from tms.core.values.message import parse_id
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction, TransactionType
from tms.wire.json_fields import (
    BASE64_TEXT,
    Count,
    MessageBytes,
    MessageIdText,
    NamespaceName,
    Owner,
    OwnerName,
    OwnersSequence,
    SubscriptionName,
    TimeMs,
    TopicName,
    Version,
    described_by,
)
from tms.wire.json_ids import POINTER, READ_POINTER, GivenPointer, ToldPointer, pointer_of
from tms.wire.json_schedules import (
    CommitScheduleOfTopic,
    commit_schedule_bodies,
    commit_schedule_of,
)
from tms.wire.json_takes import CommitAcksOfGroup, commit_acks_bodies, commit_acks_of
from tms.wire.json_values import Int64, bytes_of, decode, decode_answer, encode, json_of
from tms.wire.transaction_codec import decode_transaction, encode_transaction

Kind = Literal["short", "long"]
TYPES: dict[Kind, TransactionType] = {"short": TransactionType.SHORT, "long": TransactionType.LONG}
TYPE_NAMES: dict[TransactionType, Kind] = {kind: name for name, kind in TYPES.items()}
_DEFAULT_START = StartRequest()


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """A transaction to start."""

    type: Kind = "short"
    timeout_s: Annotated[
        Annotated[Int64, described_by({"type": "integer", "minimum": 1, "maximum": 3600})] | None,
        msgspec.Meta(description="The seconds after which a short transaction becomes invalid."),
    ] = None
    client: Annotated[str, msgspec.Meta(description="A name of the client, for operators.")] = ""
    owner: Owner = None
    sequence: OwnersSequence = None
    origin: Annotated[
        OwnerName | None,
        msgspec.Meta(description="The run of the owner. Only the same may repeat a sequence."),
    ] = None
    if_open: Annotated[
        IfOpen,
        msgspec.Meta(
            description=(
                "The rule for an older open transaction of the owner: refuse this one, "
                "invalidate the older one, or, if the sequence is the same, return the older one."
            )
        ),
    ] = IfOpen.REFUSE


class StartedBody(msgspec.Struct):
    """A transaction in progress."""

    transaction_id: ToldPointer
    write_pointer: Annotated[
        str,
        described_by({**POINTER, "description": "The write pointer for publishing from now on."}),
    ]
    read_pointer: Annotated[str, described_by(READ_POINTER)]
    transaction: Annotated[
        bytes | msgspec.UnsetType,
        described_by({**BASE64_TEXT, "description": "Tephra's TransactionCodec."}),
    ] = msgspec.UNSET
    """msgspec writes bytes as base64, and omits unset fields."""


class ChangesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a transaction's changes: each value stands for one changed thing."""

    changes: list[MessageBytes]


class AdvanceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A position to move with the commit."""

    namespace: NamespaceName
    topic: TopicName
    subscription: SubscriptionName
    after: MessageIdText
    expected_version: Version


class StoredBody(msgspec.Struct, forbid_unknown_fields=True):
    """Stored messages of a topic, under a write pointer of the transaction."""

    namespace: NamespaceName
    topic: TopicName
    write_pointer: GivenPointer


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """The other work of a commit."""

    advances: list[AdvanceBody] = []
    publish: Annotated[
        list[StoredBody],
        msgspec.Meta(
            description="The topics and write pointers of this transaction whose stored messages "
            "to publish."
        ),
    ] = []
    acks: Annotated[
        list[CommitAcksOfGroup] | msgspec.UnsetType,
        msgspec.Meta(description="The messages of groups to acknowledge: all, or none."),
    ] = msgspec.UNSET
    schedule: Annotated[
        list[CommitScheduleOfTopic] | msgspec.UnsetType,
        msgspec.Meta(description="The messages to publish later, if the transaction commits."),
    ] = msgspec.UNSET


class EndedBody(msgspec.Struct):
    """The outcome of a transaction."""

    status: Annotated[TransactionStatus, described_by({"enum": ["aborted", "invalid"]})]


class TruncationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The transactions to remove from the invalid list."""

    ids: list[GivenPointer] | None = None
    before_ms: TimeMs | None = None


class TruncatedBody(msgspec.Struct):
    """The number of transactions that were removed from the invalid list."""

    truncated: Count


def encode_start(request: StartRequest) -> bytes:
    """Return the body of a start; its home is in the query."""
    return encode(StartBody(TYPE_NAMES[request.type], *request[1:7]))


def decode_start(body: bytes) -> StartRequest:
    """Return the parameters of a start, defaults for an empty body."""
    if not body:
        return _DEFAULT_START
    value = decode(StartBody, body)
    return StartRequest(
        type=TYPES[value.type],
        timeout_s=value.timeout_s,
        client=value.client,
        owner=value.owner,
        sequence=value.sequence,
        origin=value.origin,
        if_open=value.if_open,
    )


def encode_started(transaction: Transaction, *, with_codec: bool) -> bytes:
    """Return the answer to a start and to a checkpoint."""
    return encode(
        StartedBody(
            str(transaction.transaction_id),
            str(transaction.write_pointer),
            str(transaction.read_pointer),
            encode_transaction(transaction) if with_codec else msgspec.UNSET,
        )
    )


def decode_started(answer: bytes) -> Transaction:
    """Return the transaction in the answer to a start or checkpoint."""
    codec = decode_answer(StartedBody, answer).transaction
    return decode_transaction(b"" if codec is msgspec.UNSET else codec)


def encode_changes(changes: Iterable[bytes]) -> bytes:
    """Return the body of a can-commit."""
    return encode({"changes": [json_of(change) for change in changes]})


def decode_changes(body: bytes, changes_max: int) -> list[bytes]:
    """Return the changes of a can-commit. Raises `TooLarge` (too_many_changes)."""
    changes = decode(ChangesBody, body).changes
    if len(changes) > changes_max:
        raise TooLarge("too_many_changes", count=len(changes), transaction_changes_max=changes_max)
    return [bytes_of(value) for value in changes]


def advances_bodies(advances: Iterable[Advance]) -> list[AdvanceBody]:
    """Return moves of positions as JSON fields."""
    return [
        AdvanceBody(
            advance.topic_id.namespace,
            advance.topic_id.name,
            advance.name,
            advance.after.hex(),
            advance.expected_version,
        )
        for advance in advances
    ]


def encode_commit(request: CommitRequest) -> bytes:
    """Return the body of a commit."""
    return encode(
        CommitBody(
            advances_bodies(request.advances),
            [
                StoredBody(
                    stored.topic_id.namespace, stored.topic_id.name, str(stored.write_pointer)
                )
                for stored in request.publish
            ],
            commit_acks_bodies(request.acks) or msgspec.UNSET,
            commit_schedule_bodies(request.schedule) or msgspec.UNSET,
        )
    )


def advances_of(bodies: Iterable[AdvanceBody]) -> list[Advance]:
    """Return the moves of positions. Raises `InvalidRequest` (invalid_message_id)."""
    return [
        Advance(
            TopicId(advance.namespace, advance.topic),
            advance.subscription,
            parse_id(advance.after),
            advance.expected_version,
        )
        for advance in bodies
    ]


def commit_request_of(
    advances: Sequence[AdvanceBody],
    publish: Sequence[Stored],
    acks: Sequence[CommitAcksOfGroup],
    schedule: Sequence[CommitScheduleOfTopic],
) -> CommitRequest:
    """Return the other work of a commit, `NOTHING` if there is none.

    Raises `InvalidRequest`.
    """
    if not (advances or publish or acks or schedule):
        return NOTHING
    moves, ack_requests = tuple(advances_of(advances)), commit_acks_of(acks)
    return CommitRequest(moves, publish, ack_requests, commit_schedule_of(schedule))


def decode_commit(body: bytes) -> CommitRequest:
    """Return the other work of a commit. An empty body has none."""
    if not body:
        return NOTHING
    value = decode(CommitBody, body)
    publish = tuple(
        Stored(
            TopicId(stored.namespace, stored.topic),
            pointer_of(stored.write_pointer, "write_pointer"),
        )
        for stored in value.publish
    )
    return commit_request_of(value.advances, publish, value.acks or (), value.schedule or ())


def encode_ended(status: TransactionStatus) -> bytes:
    """Return the answer to an abort."""
    return encode(EndedBody(status))


def decode_ended(answer: bytes) -> TransactionStatus:
    """Return the status in the answer to an abort."""
    return decode_answer(EndedBody, answer).status


def encode_truncation(*, ids: Iterable[int] | None = None, before_ms: int | None = None) -> bytes:
    """Return the body of a truncation of the invalid list, by one of the two."""
    return encode(TruncationBody(None if ids is None else [*map(str, ids)], before_ms))


def decode_truncation(body: bytes) -> list[int] | int:
    """Return the ids, or the time in ms, of a truncation."""
    value: Any = decode(TruncationBody, body)
    ids, before_ms = value.ids, value.before_ms
    if (ids is None) == (before_ms is None):
        raise InvalidRequest("invalid_body", format="json", expected="either ids or before_ms")
    if ids is not None:
        return [pointer_of(each, "ids", "invalid_transaction_id") for each in ids]
    if before_ms < 0:
        raise InvalidRequest("invalid_time", before_ms=before_ms)
    return int(before_ms)


def encode_truncated(count: int) -> bytes:
    """Return the answer to a truncation."""
    return encode(TruncatedBody(count))


def decode_truncated(answer: bytes) -> int:
    """Return how many pointers a truncation removed."""
    return decode_answer(TruncatedBody, answer).truncated
