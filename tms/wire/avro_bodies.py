"""Bodies as raw Avro binary: CDAP's schemas, byte for byte.

No container, no fingerprint. The answer to a poll is an Avro array written in blocks, each as
`avro_length(count)` and the items of a `MessageBlock`, closed by a zero byte.
Source: `../shared/facts/cdap.md` section 2 as summed up in `docs/formats.md`.
"""

from io import BytesIO
from typing import Any, cast

import fastavro

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.message import ID_BYTES, MORE_FOLLOWS, MessageBlock, avro_length
from tms.core.messaging import RollbackRange
from tms.wire.avro_poll import decode_poll_request
from tms.wire.bodies import PollRequest, PublishRequest

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

_PUBLISH_REQUEST = fastavro.parse_schema(PUBLISH_REQUEST_SCHEMA)
_PUBLISH_RESPONSE = fastavro.parse_schema(PUBLISH_RESPONSE_SCHEMA)
_CONSUME_REQUEST = fastavro.parse_schema(CONSUME_REQUEST_SCHEMA)

_BRANCHES = b"\x00\x02"
"""The encoded indexes of a union's two branches."""

_END = b"\x00"
_VARINT_BYTES_MAX = 10


def _encode(schema: Any, value: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def _decode(schema: Any, body: bytes) -> dict[str, Any]:
    """Decode a record whose first field is a union of two branches."""
    # fastavro takes a negative index as Python does: from the end.
    if body[:1] not in _BRANCHES:
        raise InvalidRequest("invalid_body", format="avro", reason="no such branch of a union")
    source = BytesIO(body)
    try:
        value = fastavro.schemaless_reader(source, schema, None)
    except (EOFError, IndexError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidRequest("invalid_body", format="avro", reason=str(error)) from None
    if source.tell() != len(body):
        raise InvalidRequest("invalid_body", format="avro", reason="bytes left over")
    return cast("dict[str, Any]", value)


def _read_varint(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
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


def _check_first_count(body: bytes, messages_max: int) -> None:
    """Refuse a body that announces more messages than one may have before decoding them all."""
    after_union = 1
    if body[:1] == b"\x00":
        pointer = _read_varint(body, 1)
        if pointer is None:
            return
        after_union = pointer[1]
    count = _read_varint(body, after_union)
    if count is not None and abs(count[0]) > messages_max:
        raise TooLarge("too_many_messages", count=abs(count[0]), request_messages_max=messages_max)


class AvroFormat:
    """`avro/binary`."""

    content_type = "avro/binary"

    def encode_publish(self, request: PublishRequest) -> bytes:
        """Return the body of a publish or store, for the client."""
        return _encode(
            _PUBLISH_REQUEST,
            {
                "transactionWritePointer": request.write_pointer,
                "messages": list(request.payloads),
            },
        )

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks."""
        _check_first_count(body, messages_max)
        value = _decode(_PUBLISH_REQUEST, body)
        payloads = value["messages"]
        if len(payloads) > messages_max:
            raise TooLarge(
                "too_many_messages", count=len(payloads), request_messages_max=messages_max
            )
        return PublishRequest(value["transactionWritePointer"], payloads)

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body that a transactional publish answers."""
        return _encode(
            _PUBLISH_RESPONSE,
            {
                "transactionWritePointer": published.write_pointer,
                "rollbackRange": {
                    "startTimestamp": published.start_timestamp,
                    "startSequenceId": published.start_sequence_id,
                    "endTimestamp": published.end_timestamp,
                    "endSequenceId": published.end_sequence_id,
                },
            },
        )

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return what a rollback is to roll back."""
        value = _decode(_PUBLISH_RESPONSE, body)
        if value["transactionWritePointer"] is None:
            raise InvalidRequest("invalid_write_pointer", write_pointer=None)
        bounds = value["rollbackRange"]
        return RollbackRange(
            value["transactionWritePointer"],
            bounds["startTimestamp"],
            bounds["startSequenceId"],
            bounds["endTimestamp"],
            bounds["endSequenceId"],
        )

    def encode_poll(self, request: PollRequest) -> bytes:
        """Return the body of a poll, for the client."""
        return _encode(
            _CONSUME_REQUEST,
            {
                "startFrom": request.start_from,
                "inclusive": request.inclusive,
                "limit": request.limit,
                "transaction": request.transaction,
            },
        )

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return what a poll asks."""
        return decode_poll_request(body)

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:  # noqa: ARG002
        """Return one block of the answer's array."""
        return avro_length(block.count) + block.items

    def encode_end(self, *, first: bool) -> bytes:  # noqa: ARG002
        """Return the end of the answer's array."""
        return _END


class AvroPollDecoder:
    """Cuts an Avro array of messages into blocks while it arrives.

    It looks at the lengths alone, so a message is decoded once, by whoever iterates over its block.
    What is kept between two pieces is the beginning of one message at most.
    """

    def __init__(self) -> None:
        """Expect the first block."""
        self._rest = b""
        self._left = 0
        self._ended = False
        self.last_id = b""
        """The id of the last message given, empty before the first."""

    def feed(self, data: bytes) -> MessageBlock:
        """Return the messages that `data` completes, maybe none."""
        received = self._rest + data
        runs: list[bytes] = []
        count = at = 0
        while not self._ended:
            if self._left:
                taken, end = self._run(received, at)
                runs.append(received[at:end])
                count, at = count + taken, end
                if self._left:
                    break
                continue
            announced = _read_varint(received, at)
            if announced is None:
                break
            self._left, at = announced
            self._ended = self._left == 0
            if self._left < 0:
                raise InvalidRequest("invalid_body", format="avro", reason="sized block")
        self._rest = received[at:]
        return MessageBlock(count, b"".join(runs))

    def _run(self, received: bytes, start: int) -> tuple[int, int]:
        """Return how many whole items of the present block begin at `start`, and where they end."""
        end, last_start = start, None
        before = self._left
        while self._left:
            length = _read_varint(received, end + 1 + ID_BYTES)
            if length is None or length[1] + length[0] > len(received):
                break
            last_start, end = end, length[1] + length[0]
            self._left -= 1
        if last_start is not None:
            self.last_id = received[last_start + 1 : last_start + 1 + ID_BYTES]
        return before - self._left, end

    def close(self) -> None:
        """Raise `InvalidRequest` (invalid_body) unless the array's end has been seen."""
        if not self._ended or self._rest:
            raise InvalidRequest("invalid_body", format="avro", reason="the answer is cut off")


AVRO = AvroFormat()
