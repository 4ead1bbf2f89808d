"""Bodies as raw Avro binary: CDAP's schemas, byte for byte.

No container, no fingerprint. The answer to a poll is an Avro array written in blocks, each as
`avro_length(count)` and the items of a `MessageBlock`, closed by a zero byte.
Source: `../shared/facts/cdap.md` section 2 as summed up in `docs/formats.md`.
"""

from collections.abc import Generator
from typing import Any

from tms.core.avro_lengths import LENGTHS, MORE_FOLLOWS, avro_length
from tms.core.errors import InvalidRequest
from tms.core.limits import UINT16_COUNT
from tms.core.message import ID_BYTES, KEY, MessageBlock
from tms.core.messaging import Published, RollbackRange
from tms.wire.avro import END, INT_BOUND, NULL, AvroReader, bytes_array, invalid, number, optional
from tms.wire.avro_poll import decode_poll_request, encode_poll_request
from tms.wire.avro_subscriptions import AvroSubscriptions
from tms.wire.avro_transactions import AvroTransactions
from tms.wire.bodies import PollRequest, PublishRequest
from tms.wire.caps import messages_cap
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

_VARINT_BYTES_MAX = 10
_LONE_HEADS = {
    len(NULL + avro_length(1) + length + END) + size: NULL + avro_length(1) + length
    for size, length in enumerate(LENGTHS)
}
"""What begins a publish of one message without a transaction, by the bytes of the whole body."""


class AvroFormat:
    """`avro/binary`."""

    content_type = AVRO_TYPE
    joined_messages = 0
    transactions = AvroTransactions()
    subscriptions = AvroSubscriptions()

    def encode_publish(self, request: PublishRequest) -> bytes:
        """Return the body of a publish or store, for the client."""
        pointer = request.write_pointer
        tagged = NULL if pointer is None else optional(number(pointer))
        return tagged + bytes_array(request.payloads)

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks."""
        lone_head = _LONE_HEADS.get(len(body))
        if lone_head is not None and body.startswith(lone_head) and body.endswith(END):
            # The commonest body. To read it as all others takes a tenth of the whole publish.
            return PublishRequest(None, [body[len(lone_head) : -len(END)]])
        reader = AvroReader(body)
        pointer = reader.number() if reader.has_value() else None
        payloads = reader.bytes_array(messages_cap(messages_max))
        reader.end()
        return PublishRequest(pointer, payloads)

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return what a publish or store asks: quick enough for one step."""
        yield from ()
        return self.decode_publish(body, messages_max)

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body that a transactional publish answers."""
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
        """Return the body that a publish answers that is asked for ids.

        It is that of a transactional publish, with no write pointer where there is no transaction.
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
        pointer, (timestamp_ms, sequence_id), _ = _read_range(body)
        if timestamp_ms < 0 or not 0 <= sequence_id < UINT16_COUNT:
            raise invalid("a number out of range")
        return Published(KEY.pack(timestamp_ms, sequence_id), count, pointer)

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return what a rollback is to roll back."""
        pointer, start, end = _read_range(body)
        if pointer is None:
            raise InvalidRequest("invalid_write_pointer", write_pointer=None)
        return RollbackRange(pointer, *start, *end)

    def encode_poll(self, request: PollRequest) -> bytes:
        """Return the body of a poll, for the client."""
        return encode_poll_request(request)

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return what a poll asks."""
        return decode_poll_request(body)

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:  # noqa: ARG002
        """Return one block of the answer's array: payloads alone, whatever a message has else."""
        if block.framed:
            block = block.without_frames()
        return avro_length(block.count) + block.items

    def encode_end(self, *, first: bool) -> bytes:  # noqa: ARG002
        """Return the end of the answer's array."""
        return END


def _read_range(body: bytes) -> tuple[int | None, tuple[int, int], tuple[int, int]]:
    """Return the write pointer, and timestamp and sequence id of both ends."""
    reader = AvroReader(body)
    pointer = reader.number() if reader.has_value() else None
    start = (reader.number(), reader.number(INT_BOUND))
    end = (reader.number(), reader.number(INT_BOUND))
    reader.end()
    return pointer, start, end


def read_varint(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Return the zig-zag number at `at` and where it ends; None if `data` ends within it."""
    zigzag = shift = 0
    for end in range(at, min(at + _VARINT_BYTES_MAX, len(data))):
        byte = data[end]
        zigzag |= (byte & 0x7F) << shift
        if byte < MORE_FOLLOWS:
            return (zigzag >> 1) ^ -(zigzag & 1), end + 1
        shift += 7
    if len(data) - at >= _VARINT_BYTES_MAX:
        raise InvalidRequest("invalid_body", format="avro", reason="a number of over 10 bytes")
    return None


def plain_run(received: bytes, start: int, left: int) -> tuple[int, int, int | None]:
    """Return how many whole items, of at most `left`, begin at `start`, and where they end.

    The third value is where the last one begins, None if there is none.
    """
    end, last_start, count = start, None, 0
    while count < left:
        length = read_varint(received, end + 1 + ID_BYTES)
        if length is None or length[1] + length[0] > len(received):
            break
        last_start, end = end, length[1] + length[0]
        count += 1
    return count, end, last_start


AVRO = AvroFormat()
