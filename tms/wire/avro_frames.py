"""Bodies as `avro/binary;version=2`: messages with their keys and headers.

What a publish sends, and what a poll answers, have schemas of their own; the rest is as in
`avro/binary`. The answer to a poll is an array of runs. A run has messages with payloads alone, in
the very bytes that `avro/binary` has, and then messages with a key or headers. So what has no frame
costs nothing more, and a frame's fields are a part of what is sent (`tms.core.frame`).
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from tms.core.avro_lengths import avro_length
from tms.core.frame import (
    HEADERS_FLAG,
    KEY_FLAG,
    NO_PAYLOAD_FLAG,
    Bodies,
    encode_fields,
    flags_of,
    frame_parts,
    frame_start,
    framed_of,
)
from tms.core.message import ID_BYTES, ITEM_START, MessageBlock
from tms.wire.avro import END, NULL, AvroReader, array, invalid, number, optional, sized
from tms.wire.avro_bodies import (
    CONSUME_RESPONSE_SCHEMA,
    PUBLISH_REQUEST_SCHEMA,
    AvroFormat,
)
from tms.wire.avro_message import MessageSpans, OtherForm, body_of, spans_of
from tms.wire.avro_transactions import AvroTransactions, publish_all_of
from tms.wire.bodies import MESSAGES_A_STEP, PublishRequest, last_of
from tms.wire.caps import Cap, messages_cap
from tms.wire.media_types import AVRO_FRAMES_TYPE
from tms.wire.transaction_bodies import PublishAllRequest

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
_EQUAL_RUN_MIN = 4
_SKIPPED_MAX = 1_024


class _MessagesReader(AvroReader):
    """Reads messages with keys and headers."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._skip = self._skipped = 0
        """How many messages are read before it is asked again whether they are of one form."""

    def messages(self, cap: Cap, before: int = 0) -> Generator[None, None, Bodies]:
        """Return an array of messages, in steps. Raises as `bytes_array`."""
        bodies = Bodies()
        framed: list[int] = []
        step_end = MESSAGES_A_STEP
        while count := self._block(cap, before + len(bodies)):
            stop = len(bodies) + count
            while len(bodies) < stop:
                self._add_message(stop - len(bodies), bodies, framed)
                if len(bodies) >= step_end:
                    step_end = len(bodies) + MESSAGES_A_STEP
                    yield
        bodies.framed = framed
        return bodies

    def _add_message(self, left: int, bodies: list[bytes], framed: list[int]) -> None:
        """Add the next message; if others of the same form follow, add them too."""
        body, start = self._body, self._at
        try:
            spans = spans_of(body, start)
        except OtherForm:
            self._add_other(bodies, framed)
            return
        except IndexError:
            raise invalid("the body is cut off") from None
        except ValueError as error:
            raise invalid(str(error)) from None
        count = self._equal(spans, start, min(left, MESSAGES_A_STEP))
        if spans.flags:
            framed += range(len(bodies), len(bodies) + count)
        size = spans.end - start
        self._at = start + count * size
        if count == 1:
            bodies.append(body_of(body, spans))
            return
        fields, payload = slice(spans.fields, spans.fields_end), slice(spans.payload, spans.end)
        head = frame_start(spans.flags, fields.stop - fields.start) if spans.flags else b""
        shifts = range(0, count * size, size)
        if not spans.flags:
            bodies += [body[payload.start + by : payload.stop + by] for by in shifts]
        else:
            bodies += [
                head
                + body[fields.start + by : fields.stop + by]
                + body[payload.start + by : payload.stop + by]
                for by in shifts
            ]

    def _equal(self, spans: MessageSpans, start: int, left: int) -> int:
        """Return how many messages from `start` on have one form, up to the names of headers.

        It is asked less often while the answer is one.
        """
        if self._skip:
            self._skip -= 1
            return 1
        body, size = self._body, spans.end - start
        equal = min(left, (len(body) - start) // size)
        if equal >= _EQUAL_RUN_MIN:
            stop = start + equal * size
            for first, end in spans.fixed:
                for at in range(first, end):
                    bytes_there = body[at:stop:size]
                    others = bytes_there.lstrip(body[at : at + 1])
                    equal = min(equal, len(bytes_there) - len(others))
        if equal >= _EQUAL_RUN_MIN:
            self._skipped = 0
            return equal
        self._skipped = min(_SKIPPED_MAX, 2 * self._skipped + 1)
        self._skip = self._skipped
        return 1

    def _add_other(self, bodies: list[bytes], framed: list[int]) -> None:
        """Add a message whose headers are in several blocks, or in one that says its size."""
        key = self.sized() if self.branch(2) else None
        headers: dict[str, bytes] = {}
        for _ in self.items():
            name = self.text()
            if name in headers:
                raise invalid("a header stands twice")
            headers[name] = self.sized()
        payload = self.sized() if self.branch(2) else None
        flags = flags_of(
            has_key=key is not None, has_headers=bool(headers), has_payload=payload is not None
        )
        if flags:
            framed.append(len(bodies))
            fields = encode_fields(key, headers)
            bodies.append(frame_start(flags, len(fields)) + fields + (payload or b""))
        else:
            bodies.append(payload or b"")


def _message(body: bytes, start: int, end: int, *, is_framed: bool) -> bytes:
    """Return the body from `start` to `end` as key, headers and payload."""
    if not is_framed:
        return _ABSENT + END + _PRESENT + avro_length(end - start) + body[start:end]
    flags, fields, fields_end = frame_parts(body, start)
    key = _PRESENT if flags & KEY_FLAG else _ABSENT
    headers_end = b"" if flags & HEADERS_FLAG else END
    head = key + body[fields:fields_end] + headers_end
    if flags & NO_PAYLOAD_FLAG:
        return head + _ABSENT
    return head + _PRESENT + avro_length(end - fields_end) + body[fields_end:end]


def encode_messages(bodies: Sequence[bytes]) -> bytes:
    """Return an array of messages, for the client."""
    framed = frozenset(framed_of(bodies))
    return array(
        [
            _message(body, 0, len(body), is_framed=index in framed)
            for index, body in enumerate(bodies)
        ]
    )


class AvroFramesTransactions(AvroTransactions):
    """Transactions as in `avro/binary`, but a publish to several topics has such messages."""

    def encode_publish_all(self, request: PublishAllRequest) -> bytes:
        """Return the body of a publish to several topics, for the client."""
        topics = [
            sized(name.encode()) + encode_messages(bodies)
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

    def decode_publish_all(self, body: bytes, cap: Cap) -> PublishAllRequest:
        """Return what a publish to several topics asks. Raises `TooLarge`."""
        reader = _MessagesReader(body)
        return publish_all_of(reader, cap, lambda before: last_of(reader.messages(cap, before)))


class AvroFramesFormat(AvroFormat):
    """`avro/binary;version=2`."""

    content_type = AVRO_FRAMES_TYPE
    transactions = AvroFramesTransactions()

    def encode_publish(self, request: PublishRequest) -> bytes:
        """Return the body of a publish or store, for the client."""
        pointer = request.write_pointer
        tagged = NULL if pointer is None else optional(number(pointer))
        return tagged + encode_messages(request.payloads)

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks."""
        return last_of(self.publish_steps(body, messages_max))

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return what a publish or store asks, in steps that others may have their turn between."""
        reader = _MessagesReader(body)
        pointer = reader.number() if reader.has_value() else None
        bodies = yield from reader.messages(messages_cap(messages_max))
        reader.end()
        return PublishRequest(pointer, bodies)

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:  # noqa: ARG002
        """Return one block of the answer's array of runs."""
        if not block.framed:
            return _ONE_RUN + avro_length(block.count) + block.items + END + END
        runs = _runs_of(block)
        return avro_length(len(runs)) + b"".join(runs)


def _runs_of(block: MessageBlock) -> list[bytes]:
    """Return the runs of a block, some of whose messages are framed."""
    items = block.items
    starts, ends = block.body_spans()
    item_starts = [0, *ends]

    def plain(first: int, stop: int) -> bytes:
        if first == stop:
            return END
        return avro_length(stop - first) + items[item_starts[first] : item_starts[stop]] + END

    def framed(index: int) -> bytes:
        id_end = item_starts[index] + len(ITEM_START) + ID_BYTES
        message = _message(items, starts[index], ends[index], is_framed=True)
        return items[item_starts[index] : id_end] + message

    runs: list[bytes] = []
    behind = 0
    for first, stop in _consecutive(block.framed):
        runs.append(plain(behind, first) + array([framed(at) for at in range(first, stop)]))
        behind = stop
    if behind < block.count:
        runs.append(plain(behind, block.count) + END)
    return runs


def _consecutive(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Give the first of each run of consecutive numbers, and the number behind the run."""
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
