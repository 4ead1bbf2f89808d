"""Bodies of transactions, and of a publish to several topics, as JSON."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from tms.core.commits import NOTHING, CommitRequest, Stored
from tms.core.message import parse_id
from tms.core.messaging import AllPublished
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transaction import TransactionType
from tms.core.transactions import IfOpen, StartRequest
from tms.wire.caps import Cap
from tms.wire.json_fields import (
    BASE64_TEXT,
    TOPIC_NAME,
    Count,
    MessageBytes,
    MessageIdText,
    NamespaceName,
    OwnerName,
    SubscriptionName,
    TimeMs,
    TopicName,
    Version,
    described_by,
)
from tms.wire.json_ids import POINTER, READ_POINTER, GivenPointer, ToldPointer, pointer_of
from tms.wire.json_messages import GivenPayload, given_payloads
from tms.wire.json_values import Int64, JsonBytes, bytes_of, decode, encode
from tms.wire.transaction_bodies import (
    PublishAllRequest,
    StartedTransaction,
    Truncation,
    check_truncation,
)

Kind = Literal["short", "long"]
TYPES: dict[Kind, TransactionType] = {"short": TransactionType.SHORT, "long": TransactionType.LONG}
_DEFAULT_START = StartRequest()


Owner = Annotated[
    OwnerName | None,
    msgspec.Meta(description="The producer or job whose work this is. Its sequences commit once."),
]
OwnersSequence = Annotated[
    Count | None,
    msgspec.Meta(
        description="The number of the work among its owner's, ascending; needs an owner."
    ),
]


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """What transaction to start."""

    type: Kind = "short"
    timeout_s: Annotated[
        Annotated[Int64, described_by({"type": "integer", "minimum": 1, "maximum": 3600})] | None,
        msgspec.Meta(description="After so many seconds a short transaction becomes invalid."),
    ] = None
    client: Annotated[str, msgspec.Meta(description="Who asks, for those who look after it.")] = ""
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
                "What becomes of an older transaction of the owner that is open: this one is "
                "refused, or the older one is invalidated, or, where the sequence is the same, the "
                "older one is the answer."
            )
        ),
    ] = IfOpen.REFUSE


class StartedBody(msgspec.Struct):
    """A transaction that is in progress."""

    transaction_id: ToldPointer
    write_pointer: Annotated[
        str, described_by({**POINTER, "description": "To publish with, from now on."})
    ]
    read_pointer: Annotated[str, described_by(READ_POINTER)]
    transaction: Annotated[
        bytes | msgspec.UnsetType,
        described_by({**BASE64_TEXT, "description": "Tephra's TransactionCodec."}),
    ] = msgspec.UNSET
    """msgspec writes bytes as base64, and what is unset not at all."""


class ChangesBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a transaction has changed: each value stands for one thing."""

    changes: list[MessageBytes]


class AdvanceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A position that moves with the commit."""

    namespace: NamespaceName
    topic: TopicName
    subscription: SubscriptionName
    after: MessageIdText
    expected_version: Version


class StoredBody(msgspec.Struct, forbid_unknown_fields=True):
    """What was stored in a topic under a write pointer of the transaction."""

    namespace: NamespaceName
    topic: TopicName
    write_pointer: GivenPointer


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """What else is done with the commit."""

    advances: list[AdvanceBody] = []
    publish: Annotated[
        list[StoredBody],
        msgspec.Meta(
            description="What was stored in these topics under these pointers of its own."
        ),
    ] = []


class EndedBody(msgspec.Struct):
    """How a transaction has ended."""

    status: Annotated[str, described_by({"enum": ["aborted", "invalid"]})]


class TruncationBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to take off the invalid list."""

    ids: list[GivenPointer] | None = None
    before_ms: TimeMs | None = None


class TruncatedBody(msgspec.Struct):
    """How many transactions were taken off the invalid list."""

    truncated: Count


class PublishAllBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for several topics."""

    topics: Annotated[
        dict[
            str,
            Annotated[list[GivenPayload], msgspec.Meta(extra_json_schema={"minItems": 1})],
        ],
        msgspec.Meta(
            description="Messages by the name of their topic.",
            extra_json_schema={
                "minProperties": 1,
                "propertyNames": {"pattern": TOPIC_NAME["pattern"]},
            },
        ),
    ]
    owner: Owner = None
    sequence: OwnersSequence = None


class PublishedAllBody(msgspec.Struct):
    """The transaction in which messages were published to several topics."""

    transaction_id: ToldPointer
    duplicate: Annotated[
        bool,
        msgspec.Meta(description="The sequence was committed before; nothing was done now."),
    ]


_start_decoder = msgspec.json.Decoder(StartBody)
_changes_decoder = msgspec.json.Decoder(ChangesBody)
_commit_decoder = msgspec.json.Decoder(CommitBody)
_truncation_decoder = msgspec.json.Decoder(TruncationBody)
_publish_all_decoder = msgspec.json.Decoder(PublishAllBody)


class JsonTransactions:
    """`application/json` of transactions, as the server uses it."""

    def __init__(self, *, base64_only: bool) -> None:
        """Choose how the strings of changes and messages are read, as `JsonFormat` does."""
        self._base64_only = base64_only

    def _all_bytes_of(self, values: Sequence[JsonBytes]) -> list[bytes]:
        base64_only = self._base64_only
        return [bytes_of(value, base64_only=base64_only) for value in values]

    def decode_start(self, body: bytes) -> StartRequest:
        """Return what a start asks. An empty body asks for the defaults."""
        if not body:
            return _DEFAULT_START
        value = decode(_start_decoder, body)
        return StartRequest(
            type=TYPES[value.type],
            timeout_s=value.timeout_s,
            client=value.client,
            owner=value.owner,
            sequence=value.sequence,
            origin=value.origin,
            if_open=value.if_open,
        )

    def encode_started(self, answer: StartedTransaction) -> bytes:
        """Return the answer to start and to checkpoint."""
        return encode(
            StartedBody(
                str(answer.transaction_id),
                str(answer.write_pointer),
                str(answer.read_pointer),
                msgspec.UNSET if answer.transaction is None else answer.transaction,
            )
        )

    def decode_changes(self, body: bytes, cap: Cap) -> Sequence[bytes]:
        """Return the changes of a can-commit. Raises `TooLarge`."""
        changes = decode(_changes_decoder, body).changes
        cap.check(len(changes))
        return self._all_bytes_of(changes)

    def decode_commit(self, body: bytes) -> CommitRequest:
        """Return what a commit moves and publishes."""
        if not body:
            return NOTHING
        value = decode(_commit_decoder, body)
        advances = [
            Advance(
                TopicId(advance.namespace, advance.topic),
                advance.subscription,
                parse_id(advance.after),
                advance.expected_version,
            )
            for advance in value.advances
        ]
        publish = [
            Stored(
                TopicId(stored.namespace, stored.topic),
                pointer_of(stored.write_pointer, "write_pointer"),
            )
            for stored in value.publish
        ]
        return CommitRequest(advances, publish)

    def encode_status(self, status: str) -> bytes:
        """Return the answer to an abort."""
        return encode(EndedBody(status))

    def decode_truncation(self, body: bytes) -> Truncation:
        """Return what is to be taken off the invalid list, checked."""
        value = decode(_truncation_decoder, body)
        ids = value.ids and [pointer_of(one, "ids", "invalid_transaction_id") for one in value.ids]
        return check_truncation(Truncation(ids, value.before_ms))

    def encode_truncated(self, count: int) -> bytes:
        """Return the answer to a truncation."""
        return encode(TruncatedBody(count))

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        value = decode(_publish_all_decoder, body)
        cap.check(sum(map(len, value.topics.values())))
        topics = {
            name: given_payloads(messages, base64_only=self._base64_only)
            for name, messages in value.topics.items()
        }
        return PublishAllRequest(topics, value.owner, value.sequence)

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to it."""
        return encode(PublishedAllBody(str(published.write_pointer), published.is_duplicate))
