"""Messages, their ids, and blocks of them.

A message id is 20 bytes, big-endian (CDAP's, DO NOT CHANGE, it is on disk and on the wire):

    id := publish_timestamp int64 ms, sequence_id uint16,
          write_timestamp int64 ms, payload_sequence_id uint16

The last two are zero when the payload is in the Message table. Ids are positive, so their order as
bytes is the order of the messages.

A block is a run of messages in the form of a poll's Avro answer inside an array block:

    item := 0x28 (Avro's length 20), id (20 bytes), Avro's length of the payload, payload
            | 0x28, id, a message with key or headers (`tms.core.values.framed_items`)
    block := item*

Because the cache, the wire and the client share one form, messages are encoded once.
"""

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.core.values.avro_lengths import LENGTHS, avro_length
from tms.core.values.frame import NO_HEADERS, encode_body, read_frame
from tms.core.values.framed_items import framed_item, framed_item_parts, read_framed_item
from tms.core.values.varints import MORE_FOLLOWS

ID_BYTES = 20
KEY_BYTES = 10
"""The first half of an id, timestamp and sequence, is the end of the message's row key."""

NO_PAYLOAD_KEY = bytes(KEY_BYTES)
FIRST_ID = bytes(ID_BYTES)
LAST_ID = b"\xff" * ID_BYTES

_HEX_ID = re.compile(rf"[0-9A-Fa-f]{{{2 * ID_BYTES}}}", re.ASCII)
_ID = struct.Struct(">qHqH")
KEY = struct.Struct(">qH")
"""timestamp ms, sequence id: the end of a message's row key, and of a payload's."""

SECONDS_MIN, SECONDS_END = 10**9, 10**10
"""Numbers that look like seconds since 1970 although milliseconds are required."""

ITEM_START = b"\x28"
"""Avro's encoding of the length 20, in front of each id of a block."""


class MessageId(NamedTuple):
    """The parts of a message id. Milliseconds since 1970; sequence ids from 0 to 65,535."""

    publish_timestamp: int
    sequence_id: int
    write_timestamp: int = 0
    payload_sequence_id: int = 0

    def encode(self) -> bytes:
        """Return the 20 bytes."""
        return _ID.pack(*self)

    @classmethod
    def decode(cls, raw: bytes) -> "MessageId":
        """Return the parts of the 20 bytes `raw`. Raises `InvalidRequest` (invalid_message_id)."""
        return cls._make(_ID.unpack(check_id(raw)))

    def __str__(self) -> str:
        """Return the 40 hexadecimal digits."""
        return self.encode().hex()


def check_id(raw: bytes) -> bytes:
    """Return `raw`; raise `InvalidRequest` (invalid_message_id) unless it can be a message's id."""
    if len(raw) != ID_BYTES or raw[0] & 0x80 or raw[KEY_BYTES] & 0x80:
        raise InvalidRequest("invalid_message_id", id=raw.hex()[:80])
    return raw


def parse_id(text: str) -> bytes:
    """Return the 20 bytes that 40 hexadecimal digits say. Raises `InvalidRequest`."""
    if not _HEX_ID.fullmatch(text):
        raise InvalidRequest("invalid_message_id", id=shortened(text, 80))
    return check_id(bytes.fromhex(text))


def id_after(message_id: bytes) -> bytes:
    """Return the position after `message_id`, where reading continues.

    After a message of the Message table that is the next key. Within a batch of the Payload table
    it is the next payload of the same batch, hence the next larger 20 bytes.
    """
    key, payload_key = message_id[:KEY_BYTES], message_id[KEY_BYTES:]
    if payload_key == NO_PAYLOAD_KEY:
        return key_after(key) + NO_PAYLOAD_KEY
    return key + key_after(payload_key)


def id_before(position: bytes) -> bytes:
    """Return the id just before `position` (`id_after`)."""
    if position[KEY_BYTES:] != NO_PAYLOAD_KEY:
        return (int.from_bytes(position) - 1).to_bytes(len(position))
    return (int.from_bytes(position[:KEY_BYTES]) - 1).to_bytes(KEY_BYTES) + NO_PAYLOAD_KEY


def key_after(key: bytes) -> bytes:
    """Return the smallest 10 bytes above `key`; the last key of all is its own successor."""
    if key >= LAST_ID[:KEY_BYTES]:
        return key
    return (int.from_bytes(key) + 1).to_bytes(KEY_BYTES)


def published_ms(message_id: bytes) -> int:
    """Return the publish time in an id, in milliseconds since 1970."""
    return int.from_bytes(message_id[:8])


def first_id_at(timestamp_ms: int) -> bytes:
    """Return the smallest id of a message published at `timestamp_ms` (>= 0) or later."""
    return timestamp_ms.to_bytes(8) + FIRST_ID[8:]


def shown(kind: str, **fields: object) -> str:
    """Return the repr of a value with ids among its fields, in hexadecimal digits."""
    parts = (
        f"{name}={value.hex() if isinstance(value, bytes) else repr(value)}"
        for name, value in fields.items()
    )
    return f"{kind}({', '.join(parts)})"


def shown_fields(value: Any) -> str:
    """Return the fields of such a repr, for a dataclass."""
    return shown(
        type(value).__name__, **{each.name: getattr(value, each.name) for each in fields(value)}
    )


SHOWN_PAYLOAD_BYTES_MAX = 100


class Message(NamedTuple):
    """A message, to be published or consumed.

    In a publish, the id does not count.
    """

    payload: bytes
    key: bytes | None = None
    """The key, if the message has one; a compact topic keeps the newest message of each key."""
    headers: Mapping[str, bytes] = NO_HEADERS
    """Properties of the message by name. Not to be changed."""
    id: bytes = b""
    """20 bytes; `MessageId.decode(id)` has the parts, `id.hex()` the usual text."""
    is_tombstone: bool = False
    """Whether it has no payload (b"" then), which says that its key is deleted."""

    def __repr__(self) -> str:
        """Return the fields that are set: the id in hexadecimal, a long payload shortened."""
        shown = repr(self.payload[:SHOWN_PAYLOAD_BYTES_MAX])
        if len(self.payload) > SHOWN_PAYLOAD_BYTES_MAX:
            shown = f"{shown}… of {len(self.payload)} bytes"
        parts = [f"payload={shown}"] if not self.is_tombstone else ["is_tombstone=True"]
        parts += [f"key={self.key!r}"] if self.key is not None else []
        parts += [f"headers={dict(self.headers)!r}"] if self.headers else []
        parts += [f"id={self.id.hex()}"] if self.id else []
        return f"Message({', '.join(parts)})"

    def __hash__(self) -> int:
        """Return a hash: a mapping of headers has none."""
        return hash((self.id, self.payload, self.key))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message with its headers."""
        headers = dict(self.headers) if self.headers else None
        return _message, (self.payload, self.key, headers, self.id, self.is_tombstone)

    @property
    def publish_timestamp(self) -> int:
        """When it was published, in milliseconds since 1970."""
        return published_ms(self.id)

    def body(self) -> tuple[bytes, bool]:
        """Return the body, and whether it begins with a frame."""
        payload = None if self.is_tombstone else self.payload
        return encode_body(payload, self.key, self.headers)


def _message(
    payload: bytes,
    key: bytes | None,
    headers: Mapping[str, bytes] | None,
    message_id: bytes,
    is_tombstone: bool,  # noqa: FBT001  as pickle calls it
) -> Message:
    return Message(payload, key, headers or NO_HEADERS, message_id, is_tombstone)


def tombstone(key: bytes, headers: Mapping[str, bytes] = NO_HEADERS) -> Message:
    """Return a message without a payload, which says that `key` is deleted."""
    return Message(b"", key, headers, is_tombstone=True)


def framed_message(message_id: bytes, body: bytes) -> Message:
    """Return the message whose body begins with a frame. Raises `StoreCorrupt`."""
    key, headers, has_payload, end = read_frame(body)
    return Message(body[end:], key, headers, message_id, not has_payload)


ITEM_TAILS = tuple(NO_PAYLOAD_KEY + length for length in LENGTHS)
"""The bytes between the key and the body of an item, for the most common lengths of bodies."""


def item_tail(length: int) -> bytes:
    """Return the bytes between the key and a body of `length` bytes in an item."""
    return ITEM_TAILS[length] if length < len(ITEM_TAILS) else NO_PAYLOAD_KEY + avro_length(length)


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """`count` messages, encoded as described above."""

    count: int
    items: bytes
    framed: Sequence[int] = ()
    """The indexes of the items of messages with key or headers, ascending."""
    starts: Sequence[int] | None = field(default=None, compare=False, repr=False)
    """Where the items start, then the end, from any origin; None if unknown."""

    def __iter__(self) -> Iterator[Message]:
        """Decode the messages one by one. Raises `StoreCorrupt`."""
        items, framed, make = self.items, frozenset(self.framed), tuple.__new__
        at = 0
        for index in range(self.count):
            message_id = items[at + 1 : at + 1 + ID_BYTES]
            at += 1 + ID_BYTES
            if framed and index in framed:
                (key, headers, has_payload, payload), end = read_framed_item(items, at)
                yield Message(items[payload:end], key, headers, message_id, not has_payload)
                at = end
                continue
            zigzag = shift = 0
            while True:
                byte = items[at]
                at += 1
                zigzag |= (byte & 0x7F) << shift
                if byte < MORE_FOLLOWS:
                    break
                shift += 7
            end = at + (zigzag >> 1)
            yield make(Message, (items[at:end], None, NO_HEADERS, message_id, False))
            at = end

    def ids(self) -> list[bytes]:
        """Return the ids. Raises `StoreCorrupt`."""
        items = self.items
        starts = self.starts or [0, *self.payload_spans()[1]]
        first = starts[0] - 1
        return [items[at - first : at - first + ID_BYTES] for at in starts[:-1]]

    def last_id(self) -> bytes:
        """Return the last message's id. There must be one. Raises `StoreCorrupt`."""
        starts = self.starts or [0, *self.payload_spans()[1]]
        at = starts[-2] - starts[0] + 1
        return self.items[at : at + ID_BYTES]

    def columns(self) -> tuple[list[bytes], list[bytes]]:
        """Return the ids, and the payloads; an empty one for a tombstone. Raises `StoreCorrupt`."""
        items = self.items
        starts, ends = self.payload_spans()
        ids = [items[at + 1 : at + 1 + ID_BYTES] for at in (0, *ends[:-1])] if ends else []
        return ids, [items[start:end] for start, end in zip(starts, ends, strict=True)]

    def payload_spans(self) -> tuple[list[int], list[int]]:
        """Return where each payload starts and ends in `items`.

        The next item begins at that end. Raises `StoreCorrupt`.
        """
        items, framed = self.items, frozenset(self.framed)
        starts: list[int] = []
        ends: list[int] = []
        end = 0
        for index in range(self.count):
            at = end + 1 + ID_BYTES
            if framed and index in framed:
                _, _, at, end = framed_item_parts(items, at)
                starts.append(at)
                ends.append(end)
                continue
            zigzag = items[at]
            if zigzag >= MORE_FOLLOWS:
                zigzag &= 0x7F
                shift = 7
                while True:
                    at += 1
                    byte = items[at]
                    zigzag |= (byte & 0x7F) << shift
                    if byte < MORE_FOLLOWS:
                        break
                    shift += 7
            at += 1
            end = at + (zigzag >> 1)
            starts.append(at)
            ends.append(end)
        return starts, ends

    def without_frames(self) -> "MessageBlock":
        """Return the same messages without keys and headers; a tombstone's payload is empty.

        Raises `StoreCorrupt`.
        """
        items, at = self.items, 0
        parts: list[bytes] = []
        for start, end in zip(*self.payload_spans(), strict=True):
            parts += (items[at : at + 1 + ID_BYTES], avro_length(end - start), items[start:end])
            at = end
        return MessageBlock(self.count, b"".join(parts))

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "MessageBlock":
        """Return the block of `messages`."""
        parts: list[bytes] = []
        framed: list[int] = []
        for index, message in enumerate(messages):
            body, is_framed = message.body()
            if is_framed:
                framed.append(index)
                parts += (ITEM_START, message.id, framed_item(body))
            else:
                parts += (ITEM_START, message.id, avro_length(len(body)), body)
        return cls(len(messages), b"".join(parts), framed)

    @classmethod
    def joined(cls, blocks: Sequence["MessageBlock"]) -> "MessageBlock":
        """Return consecutive blocks as one."""
        framed: list[int] = []
        count = 0
        for block in blocks:
            framed += [count + index for index in block.framed]
            count += block.count
        return cls(count, b"".join([block.items for block in blocks]), framed)


def framed_between(framed: Sequence[int], start: int, stop: int) -> Sequence[int]:
    """Return the ascending indexes from `start` to before `stop`, relative to `start`."""
    if not framed:
        return ()
    low, high = bisect_left(framed, start), bisect_left(framed, stop)
    if high - low == stop - start:
        return range(stop - start)
    return [index - start for index in framed[low:high]]


def check_start_ms(start_ms: int) -> int:
    """Return a start time given by a person; raise `InvalidRequest` if it is in seconds.

    Seconds since 1970 have ten digits from 2001 until 2286. Milliseconds of ten digits are of the
    first months of 1970, from which there are no messages: they would mean the oldest message. Not
    for CDAP's bodies, whose numbers are always milliseconds.
    """
    if SECONDS_MIN <= start_ms < SECONDS_END:
        raise InvalidRequest("start_time_in_seconds", start_time=start_ms)
    return start_ms


def position_of(start_from: bytes | int | None, *, inclusive: bool = True) -> bytes:
    """Return the position that a poll starts from: the smallest id it may give.

    `start_from` is a message id (20 bytes), a publish time in milliseconds, or None for the oldest
    message; `inclusive` says whether the messages include that id, or that millisecond. Raises
    `InvalidRequest` (invalid_message_id, invalid_start_time).
    """
    if start_from is None:
        return FIRST_ID
    if isinstance(start_from, bytes):
        check_id(start_from)
        return start_from if inclusive else id_after(start_from)
    first_ms = start_from if inclusive else start_from + 1
    if not 0 <= first_ms < 1 << 63 or start_from < 0:
        raise InvalidRequest("invalid_start_time", start_time=start_from)
    return first_id_at(first_ms)
