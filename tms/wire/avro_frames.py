"""Bodies as `avro/binary;version=2`: messages with their keys and headers.

Publishes and answers to polls have schemas of their own; the rest is as in `avro/binary`. The
answer to a poll is an array of runs. A run has messages with only payloads, in the same bytes as in
`avro/binary`, and then messages with a key or headers. So messages without a frame cost nothing
extra, and a frame's fields are sent as stored (`tms.core.values.frame`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tms.core.values.avro_lengths import avro_length
from tms.core.values.frame import framed_of
from tms.core.values.framed_items import framed_item
from tms.core.values.message import MessageBlock
from tms.wire.avro import END, array
from tms.wire.avro_bodies import (
    CONSUME_RESPONSE_SCHEMA,
    PUBLISH_REQUEST_SCHEMA,
    AvroFormat,
    publish_all_schema,
)
from tms.wire.avro_messages_reader import MessagesReader
from tms.wire.bodies import PublishRequest, last_of
from tms.wire.media_types import AVRO_FRAMES_TYPE

_FRAME_FIELDS: list[dict[str, Any]] = [
    {"name": "key", "type": ["null", "bytes"], "default": None},
    {"name": "headers", "type": {"type": "map", "values": "bytes"}, "default": {}},
    {"name": "payload", "type": ["null", "bytes"]},
]
MESSAGE_SCHEMA: dict[str, Any] = {"type": "record", "name": "Message", "fields": _FRAME_FIELDS}
PUBLISH_FRAMES_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "PublishRequest",
    "fields": [
        PUBLISH_REQUEST_SCHEMA["fields"][0],
        {
            "name": "messages",
            "type": {
                "type": "array",
                "items": MESSAGE_SCHEMA,
            },
        },
    ],
}
PUBLISH_ALL_FRAMES_SCHEMA = publish_all_schema(PUBLISH_FRAMES_SCHEMA)
CONSUME_FRAMES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "Run",
        "fields": [
            {"name": "messages", "type": CONSUME_RESPONSE_SCHEMA},
            {
                "name": "framed",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "FramedMessage",
                        "fields": [{"name": "id", "type": "bytes"}, *_FRAME_FIELDS],
                    },
                },
            },
        ],
    },
}

_ABSENT, _PRESENT = b"\x00", b"\x02"
"""The branches of a union of null and bytes."""
_ONE_RUN = b"\x02"


def _message(body: bytes, *, is_framed: bool) -> bytes:
    """Return a body as key, headers and payload."""
    if is_framed:
        return framed_item(body)
    return _ABSENT + END + _PRESENT + avro_length(len(body)) + body


class AvroFramesFormat(AvroFormat):
    """`avro/binary;version=2`."""

    content_type = AVRO_FRAMES_TYPE
    _reader = MessagesReader

    def encode_messages(self, bodies: Sequence[bytes]) -> bytes:
        """Return an array of messages, for the client."""
        framed = frozenset(framed_of(bodies))
        return array(
            [_message(body, is_framed=index in framed) for index, body in enumerate(bodies)]
        )

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return the content of a publish or store."""
        return last_of(self.publish_steps(body, messages_max))

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:  # noqa: ARG002
        """Return one block of the answer's array of runs."""
        if not block.framed:
            return _ONE_RUN + avro_length(block.count) + block.items + END + END
        if len(block.framed) == block.count:
            return _ONE_RUN + END + avro_length(block.count) + block.items + END
        runs = _runs_of(block)
        return avro_length(len(runs)) + b"".join(runs)


def _runs_of(block: MessageBlock) -> list[bytes]:
    """Return the runs of a block in which some messages are framed."""
    items = block.items
    starts = block.starts or [0, *block.payload_spans()[1]]
    base = starts[0]

    def items_of(first: int, stop: int) -> bytes:
        if first == stop:
            return END
        return avro_length(stop - first) + items[starts[first] - base : starts[stop] - base] + END

    runs: list[bytes] = []
    behind = 0
    for first, stop in _consecutive(block.framed):
        runs.append(items_of(behind, first) + items_of(first, stop))
        behind = stop
    if behind < block.count:
        runs.append(items_of(behind, block.count) + END)
    return runs


def _consecutive(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the start of each run of consecutive numbers, and its end, exclusive."""
    first = None
    stop = 0
    for number_ in numbers:
        if first is None:
            first = number_
        elif number_ != stop:
            yield first, stop
            first = number_
        stop = number_ + 1
    if first is not None:
        yield first, stop


AVRO_FRAMES = AvroFramesFormat()
