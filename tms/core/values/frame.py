"""Frames: a message's key and headers, in front of its payload.

    body   := payload                       of a message that has a payload alone
            | frame payload                 of a framed message
    frame  := length, flags uint8, fields   the length is that of what follows it
    flags  := 1 key, 2 headers, 4 no payload
    fields := if flag 1: length, key
              if flag 2: count, (length, name UTF-8, length, value)*, 0x00

Lengths and counts are Avro's, and a frame's fields are encoded as Avro's bytes and map of bytes, so
they are not encoded again between a request and the store (`docs/formats.md`). An unknown flag is
damage. A message without key and headers has no frame, so it costs no byte.

A body's bytes do not say that it begins with a frame; its type does (`FramedBody`), so a list of
bodies can be copied, cut and joined.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tms.core.errors import StoreCorrupt
from tms.core.values.avro_lengths import avro_length, read_length

KEY_FLAG, HEADERS_FLAG, NO_PAYLOAD_FLAG = 1, 2, 4
_FLAGS = KEY_FLAG | HEADERS_FLAG | NO_PAYLOAD_FLAG
_MAP_END = b"\x00"
_SHOWN_BYTES = 20

NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})


class FramedBody(bytes):
    """A body that begins with a frame. A slice or a join of it is plain bytes without a frame."""

    __slots__ = ()


def framed_of(bodies: Sequence[bytes]) -> Sequence[int]:
    """Return the indexes of the bodies that begin with a frame, ascending."""
    if len(bodies) == 1:
        return (0,) if type(bodies[0]) is FramedBody else ()
    if FramedBody not in set(map(type, bodies)):  # the quickest way to see that there are none
        return ()
    return [index for index, body in enumerate(bodies) if type(body) is FramedBody]


class Frame(NamedTuple):
    """The key and headers of a frame."""

    key: bytes | None
    headers: Mapping[str, bytes]
    has_payload: bool
    end: int
    """Where the payload begins in the body."""


def encode_fields(key: bytes | None, headers: Mapping[str, bytes]) -> bytes:
    """Return the fields of a frame."""
    parts: list[bytes] = []
    if key is not None:
        parts += (avro_length(len(key)), key)
    if headers:
        parts.append(avro_length(len(headers)))
        for name, value in headers.items():
            raw = name.encode()
            parts += (avro_length(len(raw)), raw, avro_length(len(value)), value)
        parts.append(_MAP_END)
    return b"".join(parts)


def frame_start(flags: int, fields_bytes: int) -> bytes:
    """Return the bytes before the fields of a frame."""
    return avro_length(1 + fields_bytes) + bytes((flags,))


def flags_of(*, has_key: bool, has_headers: bool, has_payload: bool) -> int:
    """Return the flags of a frame; 0 if it is not needed."""
    return KEY_FLAG * has_key + HEADERS_FLAG * has_headers + NO_PAYLOAD_FLAG * (not has_payload)


def encode_body(
    payload: bytes | None, key: bytes | None = None, headers: Mapping[str, bytes] = NO_HEADERS
) -> tuple[bytes, bool]:
    """Return a message's body, and whether it begins with a frame. A missing payload is None."""
    flags = flags_of(
        has_key=key is not None, has_headers=bool(headers), has_payload=payload is not None
    )
    if not flags:
        return payload or b"", False
    fields = encode_fields(key, headers)
    return frame_start(flags, len(fields)) + fields + (payload or b""), True


def bodies_of(bodies: Sequence[tuple[bytes, bool]]) -> list[bytes]:
    """Return bodies, each given with whether it is framed."""
    return [FramedBody(body) if is_framed else body for body, is_framed in bodies]


def read_frame(body: bytes, at: int = 0) -> Frame:
    """Return the frame that begins at `at`. Raises `StoreCorrupt`."""
    try:
        size, start = read_length(body, at)
        end = start + size
        flags, at = body[start], start + 1
        if flags & ~_FLAGS or not flags or end > len(body):
            raise _damaged(body)
    except (IndexError, ValueError):
        raise _damaged(body) from None
    key, headers = read_fields(flags, body[at:end])
    return Frame(key, headers, not flags & NO_PAYLOAD_FLAG, end)


def read_fields(flags: int, fields: bytes) -> tuple[bytes | None, Mapping[str, bytes]]:
    """Return the key and the headers in the fields of a frame. Raises `StoreCorrupt`."""
    key, headers, at = None, NO_HEADERS, 0
    try:
        if flags & KEY_FLAG:
            key, at = _read_sized(fields, at)
        if flags & HEADERS_FLAG:
            headers, at = _read_headers(fields, at)
    except (IndexError, ValueError):
        raise _damaged(fields) from None
    if at != len(fields):
        raise _damaged(fields)
    return key, headers


def frame_parts(body: bytes, at: int = 0) -> tuple[int, int, int]:
    """Return a frame's flags, and where its fields begin and end. Raises `StoreCorrupt`."""
    try:
        size, start = read_length(body, at)
        flags = body[start]
    except (IndexError, ValueError):
        raise _damaged(body) from None
    if not flags or flags & ~_FLAGS or start + size > len(body):
        raise _damaged(body)
    return flags, start + 1, start + size


def read_key(body: bytes, at: int = 0) -> tuple[bytes | None, bool]:
    """Return the key in the frame at `at`, None if it has none, and whether there is a payload.

    Raises `StoreCorrupt`.
    """
    flags, start, end = frame_parts(body, at)
    has_payload = not flags & NO_PAYLOAD_FLAG
    if not flags & KEY_FLAG:
        return None, has_payload
    try:
        size, start = read_length(body, start)
    except (IndexError, ValueError):
        raise _damaged(body) from None
    if start + size > end:
        raise _damaged(body)
    return body[start : start + size], has_payload


def _damaged(body: bytes) -> StoreCorrupt:
    return StoreCorrupt(frame_start=body[:_SHOWN_BYTES].hex())


def _read_sized(body: bytes, at: int) -> tuple[bytes, int]:
    size, start = read_length(body, at)
    return body[start : start + size], start + size


def _read_headers(body: bytes, at: int) -> tuple[dict[str, bytes], int]:
    count, at = read_length(body, at)
    headers: dict[str, bytes] = {}
    for _ in range(count):
        name, at = _read_sized(body, at)
        value, at = _read_sized(body, at)
        headers[name.decode()] = value
    if body[at] != 0:
        raise IndexError
    return headers, at + 1
