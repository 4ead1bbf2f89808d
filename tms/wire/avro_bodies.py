"""Bodies of messages as raw Avro binary: CDAP's schemas, byte for byte.

No container, no fingerprint. The answer to a poll is an Avro array written in blocks, each as
`avro_length(count)` and the items of a `MessageBlock`, closed by a zero byte. CDAP cannot publish
to several topics, so those two schemas are our own. `docs/formats.md` has all schemas with
examples.
"""

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from tms.core.errors import InvalidRequest
from tms.core.limits import UINT16_COUNT
from tms.core.services.commits import NOTHING
from tms.core.services.messaging import AllPublished, Published, RollbackRange
from tms.core.values.avro_lengths import LENGTHS, avro_length, read_length
from tms.core.values.message import ID_BYTES, KEY, MessageBlock
from tms.core.values.varints import MORE_FOLLOWS
from tms.wire.avro import (
    END,
    INT_BOUND,
    NULL,
    AvroReader,
    array,
    boolean,
    bytes_array,
    invalid,
    number,
    optional,
    sized,
)
from tms.wire.bodies import PollRequest, PublishAllRequest, PublishRequest, last_of
from tms.wire.media_types import AVRO_TYPE

PUBLISH_REQUEST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "PublishRequest",
    "fields": [
        {"name": "transactionWritePointer", "type": ["long", "null"]},
        {"name": "messages", "type": {"type": "array", "items": "bytes"}},
    ],
}
PUBLISH_RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "PublishResponse",
    "fields": [
        {"name": "transactionWritePointer", "type": ["long", "null"]},
        {
            "name": "rollbackRange",
            "type": {
                "type": "record",
                "name": "RollbackRange",
                "fields": [
                    {"name": "startTimestamp", "type": "long"},
                    {"name": "startSequenceId", "type": "int"},
                    {"name": "endTimestamp", "type": "long"},
                    {"name": "endSequenceId", "type": "int"},
                ],
            },
        },
    ],
}
PUBLISHED_ALL_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "PublishAllResponse",
    "fields": [
        {"name": "transaction_id", "type": "long"},
        {"name": "duplicate", "type": "boolean"},
    ],
}
CONSUME_REQUEST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "ConsumeRequest",
    "fields": [
        {"name": "startFrom", "type": ["bytes", "long", "null"]},
        {"name": "inclusive", "type": "boolean", "default": True},
        {"name": "limit", "type": ["int", "null"]},
        {"name": "transaction", "type": ["bytes", "null"]},
    ],
}
CONSUME_RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "Messages",
        "fields": [{"name": "id", "type": "bytes"}, {"name": "payload", "type": "bytes"}],
    },
}


def publish_all_schema(publish_request: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a publish to several topics, based on that of one topic."""
    topic = {"name": "topic", "type": "string"}
    publication = {
        "type": "record",
        "name": "TopicMessages",
        "fields": [topic, publish_request["fields"][1]],
    }
    return {
        "type": "record",
        "name": "PublishAllRequest",
        "fields": [
            {"name": "topics", "type": {"type": "array", "items": publication}},
            {"name": "owner", "type": ["string", "null"]},
            {"name": "sequence", "type": ["long", "null"]},
        ],
    }


PUBLISH_ALL_SCHEMA = publish_all_schema(PUBLISH_REQUEST_SCHEMA)
_LONE_HEADS = {
    len(NULL + avro_length(1) + length + END) + size: NULL + avro_length(1) + length
    for size, length in enumerate(LENGTHS)
}
"""By body length, the bytes before the message in a publish of one without a transaction."""


class AvroFormat:
    """`avro/binary`."""

    content_type = AVRO_TYPE
    joined_messages = 0
    _reader: ClassVar[type[AvroReader]] = AvroReader
    """Reads the messages of a request."""

    def encode_messages(self, bodies: Sequence[bytes]) -> bytes:
        """Return an array of messages, for the client."""
        return bytes_array(bodies)

    def encode_publish(self, request: PublishRequest) -> bytes:
        """Return the body of a publish or store, for the client."""
        pointer = request.write_pointer
        tagged = NULL if pointer is None else optional(number(pointer))
        return tagged + self.encode_messages(request.payloads)

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return the content of a publish or store."""
        head = _LONE_HEADS.get(len(body))
        if head is not None and body.startswith(head) and body.endswith(END):
            # The most common body: reading it the general way takes a tenth of a publish.
            return PublishRequest(None, [body[len(head) : -len(END)]])
        return last_of(self.publish_steps(body, messages_max))

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return the content of a publish or store, in steps between which others get a turn."""
        reader = self._reader(body)
        pointer = reader.number() if reader.has_value() else None
        payloads = yield from reader.steps(messages_max)
        reader.end()
        return PublishRequest(pointer, payloads)

    def encode_publish_all(self, request: PublishAllRequest) -> bytes:
        """Return the body of a publish to several topics, for the client."""
        assert request.carried == NOTHING, "more is done in JSON alone"
        topics = [
            sized(name.encode()) + self.encode_messages(bodies)
            for name, bodies in request.topics.items()
        ]
        owner, sequence = request.owner, request.sequence
        return b"".join(
            (
                array(topics),
                NULL if owner is None else optional(sized(owner.encode())),
                NULL if sequence is None else optional(number(sequence)),
            )
        )

    def publish_all_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishAllRequest]:
        """Return the content of a publish to several topics, in steps."""
        reader = self._reader(body)
        topics: dict[str, Sequence[bytes]] = {}
        count = 0
        for _ in reader.items(messages_max):
            name = reader.text()
            if name in topics:
                raise invalid("a topic stands twice")
            topics[name] = messages = yield from reader.steps(messages_max, count)
            count += len(messages)
        owner = reader.text() if reader.has_value() else None
        sequence = reader.number() if reader.has_value() else None
        reader.end()
        return PublishAllRequest(topics, owner, sequence)

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        return number(published.write_pointer) + boolean(value=published.is_duplicate)

    def decode_published_all(self, body: bytes) -> AllPublished:
        """Return the answer to a publish to several topics, for the client."""
        reader = AvroReader(body)
        published = AllPublished(reader.number(), is_duplicate=reader.boolean())
        reader.end()
        return published

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body of the answer to a transactional publish."""
        start = end = number(published.start_timestamp)
        if published.end_timestamp != published.start_timestamp:
            end = number(published.end_timestamp)
        return b"".join(
            (
                optional(number(published.write_pointer)),
                start,
                number(published.start_sequence_id),
                end,
                number(published.end_sequence_id),
            )
        )

    def encode_published(self, published: Published) -> bytes:
        """Return the answer to a publish that requests ids.

        It is that of a transactional publish, without a write pointer if there is no transaction.
        """
        pointer = published.write_pointer
        return b"".join(
            (
                NULL if pointer is None else optional(number(pointer)),
                *map(number, KEY.unpack(published.first_key)),
                *map(number, KEY.unpack(published.last_key)),
            )
        )

    def decode_published(self, body: bytes, count: int) -> Published:
        """Return the ids of the `count` messages that such a publish wrote, for the client."""
        half = len(body) // 2
        if body[:1] == NULL and body[1 : half + 1] == body[half + 1 :]:  # of one message
            pointer, reader = None, AvroReader(body[half + 1 :])
            timestamp_ms, sequence_id = reader.number(), reader.number(INT_BOUND)
            reader.end()
        else:
            pointer, (timestamp_ms, sequence_id), _ = _read_range(body)
        if timestamp_ms < 0 or not 0 <= sequence_id < UINT16_COUNT:
            raise invalid("a number out of range")
        return Published(KEY.pack(timestamp_ms, sequence_id), count, pointer)

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return the range that a rollback names."""
        pointer, start, end = _read_range(body)
        if pointer is None:
            raise InvalidRequest("invalid_write_pointer", write_pointer=None)
        return RollbackRange(pointer, *start, *end)

    def encode_poll(self, request: PollRequest) -> bytes:
        """Return the body of a poll, for the client."""
        start = request.start_from
        if start is None:
            start_from = b"\x04"
        elif isinstance(start, bytes):
            start_from = b"\x00" + sized(start)
        else:
            start_from = b"\x02" + number(start)
        limit, transaction = request.limit, request.transaction
        return b"".join(
            (
                start_from,
                boolean(value=request.inclusive),
                NULL if limit is None else optional(number(limit)),
                NULL if transaction is None else optional(sized(transaction)),
            )
        )

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return the request of a poll. A library would take an eighth of the whole poll."""
        reader = AvroReader(body)
        branch = reader.branch(3)
        start_from: bytes | int | None = None
        if branch == 0:
            start_from = reader.sized()
        elif branch == 1:
            start_from = reader.number()
        inclusive = reader.boolean()
        limit = reader.number(INT_BOUND) if reader.has_value() else None
        transaction = reader.sized() if reader.has_value() else None
        reader.end()
        return PollRequest(start_from, inclusive, limit, transaction)

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:  # noqa: ARG002
        """Return one block of the answer's array: payloads only."""
        if block.framed:
            block = block.without_frames()
        return avro_length(block.count) + block.items

    def encode_end(self, *, first: bool) -> bytes:  # noqa: ARG002
        """Return the end of the answer's array."""
        return END


def _read_range(body: bytes) -> tuple[int | None, tuple[int, int], tuple[int, int]]:
    """Return the write pointer, and the timestamp and sequence id of both ends."""
    reader = AvroReader(body)
    pointer = reader.number() if reader.has_value() else None
    start = (reader.number(), reader.number(INT_BOUND))
    end = (reader.number(), reader.number(INT_BOUND))
    reader.end()
    return pointer, start, end


def plain_run(received: bytes, start: int, limit: int) -> tuple[int, int, int | None]:
    """Return how many complete items, up to `limit`, begin at `start`, and where they end.

    The third value is where the last one begins, None without one. Raises `InvalidRequest`.
    """
    end, last_start, count = start, None, 0
    try:
        while count < limit:
            at = end + 1 + ID_BYTES
            first = received[at]
            if first & 1 or (first >= MORE_FOLLOWS and received[at + 1] >= MORE_FOLLOWS):
                size, body = read_length(received, at)
            elif first < MORE_FOLLOWS:  # these two are nearly all
                size, body = first >> 1, at + 1
            else:
                size, body = (first & ~MORE_FOLLOWS | received[at + 1] << 7) >> 1, at + 2
            if body + size > len(received):
                break
            last_start, end = end, body + size
            count += 1
    except IndexError:
        pass  # The length is incomplete.
    except ValueError as error:
        raise invalid(str(error)) from None
    return count, end, last_start


AVRO = AvroFormat()
