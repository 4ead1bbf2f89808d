"""Bodies of messages as JSON: the records of the Avro schemas (values: `json_values`)."""

from collections.abc import Generator, Sequence
from typing import Annotated, Any

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.services.messaging import AllPublished, Published, RollbackRange
from tms.core.services.payload_values import ValueToEncode
from tms.core.values.message import MessageBlock, check_start_ms, parse_id
from tms.wire.bodies import (
    MESSAGES_A_STEP,
    PollRequest,
    PublishAllRequest,
    PublishRequest,
    last_of,
    too_many_messages,
)
from tms.wire.json_fields import (
    BASE64_TEXT,
    COUNT,
    FILTER,
    LIMIT,
    MESSAGE_ID,
    NULL,
    TIME,
    TOPIC_NAME,
    MessageIdText,
    Owner,
    OwnersSequence,
    SequenceId,
    Timestamp,
    described_by,
    one_of,
    reference,
    tagged,
)
from tms.wire.json_ids import ToldPointer, pointer_of
from tms.wire.json_messages import (
    MessageInput,
    PayloadInput,
    are_all_text,
    encode_rows,
    json_of_body,
    message_bodies,
    payload_bodies,
    values_to_encode,
)
from tms.wire.json_ranges import IsolationName
from tms.wire.json_schedules import CommitScheduleOfTopic, commit_schedule_bodies
from tms.wire.json_takes import CommitAcksOfGroup, commit_acks_bodies
from tms.wire.json_transactions import AdvanceBody, advances_bodies, commit_request_of
from tms.wire.json_values import (
    check_body,
    decode,
    decode_answer,
    decoder_of,
    encode,
    from_base64,
    int64,
    untagged,
)
from tms.wire.media_types import JSON_TYPE

TaggedPointer = Annotated[
    str | int | float | dict[str, str | int | float], described_by(reference("WritePointer"))
]


class PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to publish, or to store."""

    messages: list[MessageInput]
    transactionWritePointer: TaggedPointer | None = None  # noqa: N815  the schema's name


class RollbackRangeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The ids of the entries written, both ends inclusive."""

    startTimestamp: Timestamp  # noqa: N815
    startSequenceId: SequenceId  # noqa: N815
    endTimestamp: Timestamp  # noqa: N815
    endSequenceId: SequenceId  # noqa: N815


class PublishAllBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for several topics."""

    topics: Annotated[
        dict[
            str,
            Annotated[list[PayloadInput], msgspec.Meta(extra_json_schema={"minItems": 1})],
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
    advances: list[AdvanceBody] = []
    acks: list[CommitAcksOfGroup] = []
    schedule: list[CommitScheduleOfTopic] = []


class PublishedAllBody(msgspec.Struct):
    """The transaction in which messages were published to several topics."""

    transaction_id: ToldPointer
    duplicate: Annotated[
        bool,
        msgspec.Meta(description="The sequence was committed earlier, so nothing was done now."),
    ]


class WrittenBody(msgspec.Struct, forbid_unknown_fields=True):
    """The result of a publish of Arrow's messages, or of one with `ids`."""

    ids: Annotated[
        list[MessageIdText] | msgspec.UnsetType,
        msgspec.Meta(
            description="The ids of the messages in order, if the request had `ids=true`."
        ),
    ] = msgspec.UNSET
    messages: Annotated[
        int | msgspec.UnsetType,
        described_by(
            {**COUNT, "description": "How many messages the body had; only for a body of Arrow."}
        ),
    ] = msgspec.UNSET


class RollbackBody(WrittenBody, forbid_unknown_fields=True, kw_only=True):
    """The answer to a publish in a transaction, which is the body of a rollback."""

    transactionWritePointer: TaggedPointer  # noqa: N815
    rollbackRange: RollbackRangeBody  # noqa: N815


class PollBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where to start reading, and how much to read."""

    startFrom: Annotated[  # noqa: N815
        str | int | dict[str, str | int] | None,
        described_by(
            {
                **one_of(MESSAGE_ID, tagged("bytes", MESSAGE_ID), TIME, tagged("long", TIME), NULL),
                "description": (
                    "A message id, a publish time in milliseconds, or null for the oldest."
                ),
            }
        ),
    ] = None
    inclusive: bool = True
    limit: Annotated[
        int | dict[str, int] | None, described_by(one_of(LIMIT, tagged("int", LIMIT), NULL))
    ] = None
    transaction: Annotated[
        str | int | float | dict[str, str] | None,
        described_by(
            {
                **one_of(BASE64_TEXT, tagged("bytes", BASE64_TEXT), NULL),
                "description": "Base64 of Tephra's TransactionCodec.",
            }
        ),
    ] = None
    end: Annotated[
        MessageIdText | None, msgspec.Meta(description="Where to end: no messages from this id on.")
    ] = None
    isolation: Annotated[
        IsolationName | None, msgspec.Meta(description="The same as in the query.")
    ] = None
    filter: Annotated[str | None, described_by(FILTER)] = None


class _Outer(msgspec.Struct):
    """A publish whose messages are not decoded yet."""

    messages: msgspec.Raw


class _Array(msgspec.Struct):
    """A publish of which only the number of messages counts."""

    messages: list[msgspec.Raw]

    @property
    def count(self) -> int:
        return len(self.messages)


class _ArraysByTopic(msgspec.Struct):
    """The same, to several topics."""

    topics: dict[str, list[msgspec.Raw]]

    @property
    def count(self) -> int:
        return sum(map(len, self.topics.values()))


def _check_count(kind: type[_Array | _ArraysByTopic], body: bytes, messages_max: int) -> None:
    """Raise `TooLarge` if there are too many messages, before any is decoded.

    `{}` takes 3 bytes in a body, and a hundred when it is decoded.
    """
    if body.count(b",") < messages_max:
        return
    try:
        count = decoder_of(kind).decode(body).count
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # reported by the decoder of the whole request
    if count > messages_max:
        raise too_many_messages(count, messages_max)


_LONG_BYTES = 1_000


def _check_names(body: bytes, messages: Sequence[Any]) -> None:
    """Raise as `check_body`; an array of texts, which has no names, is not parsed again."""
    if len(body) > _LONG_BYTES and are_all_text(messages):
        array = bytes(decoder_of(_Outer).decode(body).messages)
        at = body.index(b"[")
        if body.startswith(array, at):
            body = body[:at] + b"0" + body[at + len(array) :]
    check_body(body)


class JsonFormat:
    """`application/json`; its bytes are text, or base64 if they are not UTF-8."""

    content_type = JSON_TYPE
    joined_messages = 0

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return the content of a publish or store."""
        return last_of(self.publish_steps(body, messages_max))

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return the content of a publish or store, in steps between which others get a turn."""
        _check_count(_Array, body, messages_max)
        value = decode(PublishBody, body, check=False)
        messages = value.messages
        if len(messages) > MESSAGES_A_STEP:
            yield
        _check_names(body, messages)
        write_pointer = value.transactionWritePointer
        pointer = None if write_pointer is None else _pointer_of(write_pointer)
        values: dict[int, ValueToEncode] = {}
        bodies: list[bytes] = []
        for start in range(0, len(messages), MESSAGES_A_STEP):
            if start:
                yield
            part = messages[start : start + MESSAGES_A_STEP]
            some = message_bodies(part)
            to_encode = values_to_encode(part)
            values.update({start + index: value for index, value in to_encode.items()})
            bodies += some
        return PublishRequest(pointer, bodies, values)

    def encode_publish_all(self, request: PublishAllRequest) -> bytes:
        """Return the body of a publish to several topics, for the client; bytes as text."""
        carried, topics = request.carried, request.topics.items()
        body = {
            "topics": {name: [*map(json_of_body, bodies)] for name, bodies in topics},
            "owner": request.owner,
            "sequence": request.sequence,
            "advances": advances_bodies(carried.advances),
            "acks": commit_acks_bodies(carried.acks),
            "schedule": commit_schedule_bodies(carried.schedule),
        }
        return encode(body)

    def publish_all_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishAllRequest]:
        """Return the content of a publish to several topics, in steps."""
        _check_count(_ArraysByTopic, body, messages_max)
        value = decode(PublishAllBody, body, check=False)
        yield
        check_body(body)
        topics: dict[str, list[bytes]] = {}
        for name, messages in value.topics.items():
            topics[name] = bodies = []
            for start in range(0, len(messages), MESSAGES_A_STEP):
                yield
                bodies += payload_bodies(messages[start : start + MESSAGES_A_STEP])
        carried = commit_request_of(value.advances, (), value.acks, value.schedule)
        return PublishAllRequest(topics, value.owner, value.sequence, carried)

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        return encode(PublishedAllBody(str(published.write_pointer), published.is_duplicate))

    def decode_published_all(self, answer: bytes) -> AllPublished:
        """Return the answer to a publish to several topics, for the client."""
        body = decode_answer(PublishedAllBody, answer)
        return AllPublished(int(body.transaction_id), is_duplicate=body.duplicate)

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the answer to a transactional publish."""
        return encode(_rollback_body(published))

    def encode_published(self, published: Published) -> bytes:
        """Return the answer to a publish that requests ids."""
        return encode(_written_body(published, with_ids=True))

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return the range that a rollback names."""
        value = decode(RollbackBody, body)
        bounds = value.rollbackRange
        return RollbackRange(
            _pointer_of(value.transactionWritePointer),
            int64(bounds.startTimestamp, "startTimestamp"),
            int64(bounds.startSequenceId, "startSequenceId"),
            int64(bounds.endTimestamp, "endTimestamp"),
            int64(bounds.endSequenceId, "endSequenceId"),
        )

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return the request of a poll. An empty body reads from the oldest message."""
        value = decode(PollBody, body or b"{}")
        start = untagged(value.startFrom, "bytes", "long")
        start = parse_id(start) if isinstance(start, str) else start
        limit = untagged(value.limit, "int")
        transaction = untagged(value.transaction, "bytes")
        if isinstance(transaction, int | float):
            raise InvalidRequest(
                "id_as_number", field="transaction", expected="?transaction_id= in the URL"
            )
        return PollRequest(
            start
            if start is None or isinstance(start, bytes)
            else check_start_ms(int64(start, "startFrom")),
            value.inclusive,
            limit if limit is None else int64(limit, "limit"),
            transaction if transaction is None else from_base64(transaction),
            None if value.end is None else parse_id(value.end),
            value.isolation,
            value.filter,
        )

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the messages as elements of the answer's array."""
        rows = encode_rows(block)
        return (b"[" if first else b",") + rows[1:-1]

    def encode_end(self, *, first: bool) -> bytes:
        """Return the end of the answer's array."""
        return b"[]" if first else b"]"


def _pointer_of(value: Any) -> int:
    return pointer_of(untagged(value, "long"), "transactionWritePointer")


def _rollback_body(published: RollbackRange) -> RollbackBody:
    return RollbackBody(
        transactionWritePointer=str(published.write_pointer),
        rollbackRange=RollbackRangeBody(
            published.start_timestamp,
            published.start_sequence_id,
            published.end_timestamp,
            published.end_sequence_id,
        ),
    )


def _written_body(published: Published, *, with_ids: bool) -> WrittenBody:
    written = published.rollback_range
    body = WrittenBody() if written is None else _rollback_body(written)
    if with_ids:
        body.ids = [message_id.hex() for message_id in published[:]]
    return body


def encode_written(count: int, published: Published, *, with_ids: bool = False) -> bytes:
    """Return the answer to a publish or store of `count` messages as Arrow."""
    body = _written_body(published, with_ids=with_ids)
    body.messages = count
    return encode(body)


JSON = JsonFormat()
