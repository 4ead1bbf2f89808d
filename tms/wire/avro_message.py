"""Locates the parts of a message with key and headers in Avro, without decoding them.

    message := key union (null, bytes), headers map of bytes, payload union (null, bytes)

If its headers are in one block, as usual, key and headers are exactly the bytes of a frame's fields
(`tms.core.values.frame`).
"""

from typing import NamedTuple

from tms.core.values.avro_lengths import read_length
from tms.core.values.frame import flags_of, frame_start


class MessageSpans(NamedTuple):
    """The positions of the parts of one message."""

    flags: int
    """The flags of its frame; 0 if it has none."""
    fields: int
    fields_end: int
    payload: int
    end: int
    fixed: list[tuple[int, int]]
    """The other parts: lengths, branches and header names."""
    name: bytes | None
    """The name of the only header, after its length; None if there are none or several."""


class OtherForm(Exception):
    """Raised if headers are not in one block of known count, which Avro allows."""


def spans_of(data: bytes, start: int) -> MessageSpans:
    """Return the positions of the key, headers and payload that begin at `start`.

    Raises `IndexError` if `data` ends before, `ValueError` if it is not a message, `OtherForm`.
    """
    branch, at = data[start], start + 1
    fixed = [(start, at)]
    if branch not in (0, 2):
        raise ValueError("a union without such a branch")
    if branch:
        size, key_at = read_length(data, at)
        fixed.append((at, key_at))
        at = key_at + size
    key_end = at
    if data[at] & 1:
        raise OtherForm
    count, names_at = read_length(data, at)
    fixed.append((at, names_at))
    at = names_at
    name = None
    if count:
        at = _headers_end(data, at, count, fixed)
    if count == 1:
        size, name_at = read_length(data, names_at)
        name = data[names_at : name_at + size]
    fields_end = at if count else key_end
    flags = flags_of(has_key=branch != 0, has_headers=count > 0, has_payload=data[at] != 0)
    if data[at] not in (0, 2):
        raise ValueError("a union without such a branch")
    payload = end = at + 1
    if data[at]:
        size, payload = read_length(data, at + 1)
        end = payload + size
    fixed.append((at, payload))
    if end > len(data):
        raise IndexError
    return MessageSpans(flags, start + 1, fields_end, payload, end, fixed, name)


def _headers_end(data: bytes, at: int, count: int, fixed: list[tuple[int, int]]) -> int:
    names = set()
    for _ in range(count):
        size, name_at = read_length(data, at)
        value_length_at = name_at + size
        size, value_at = read_length(data, value_length_at)
        names.add(data[name_at:value_length_at].decode())
        fixed.append((at, value_at))
        at = value_at + size
    if data[at]:
        raise OtherForm
    if len(names) < count:
        raise ValueError("a header stands twice")
    fixed.append((at, at + 1))
    return at + 1


def body_of(data: bytes, spans: MessageSpans) -> bytes:
    """Return the body of the message at `spans`."""
    payload = data[spans.payload : spans.end]
    if not spans.flags:
        return payload
    fields = data[spans.fields : spans.fields_end]
    return frame_start(spans.flags, len(fields)) + fields + payload
