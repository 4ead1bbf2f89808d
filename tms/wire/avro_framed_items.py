"""The framed messages of a poll's answer, as the cache has them and as `avro/binary;version=2` has.

Both have the same parts: id, fields of the frame, payload. What stands between them differs. Short
messages are put together without a call each.
"""

from collections.abc import Sequence

from tms.core.avro_lengths import LENGTHS, MORE_FOLLOWS, avro_length
from tms.core.frame import HEADERS_FLAG, KEY_FLAG, NO_PAYLOAD_FLAG, frame_parts
from tms.core.message import ID_BYTES, ITEM_START

_ID_END = len(ITEM_START) + ID_BYTES
_ABSENT, _PRESENT = b"\x00", b"\x02"
"""The branches of a union of null and bytes."""
_BEFORE_PAYLOAD = tuple(_PRESENT + length for length in LENGTHS)
_KEY, _BOTH = KEY_FLAG, KEY_FLAG | HEADERS_FLAG


def framed_message(body: bytes, start: int, end: int) -> bytes:
    """Return the framed body from `start` to `end` as key, headers and payload."""
    flags, fields, fields_end = frame_parts(body, start)
    key = _PRESENT if flags & KEY_FLAG else _ABSENT
    headers_end = b"" if flags & HEADERS_FLAG else _ABSENT
    head = key + body[fields:fields_end] + headers_end
    if flags & NO_PAYLOAD_FLAG:
        return head + _ABSENT
    return head + _PRESENT + avro_length(end - fields_end) + body[fields_end:end]


def framed_items(items: bytes, item_starts: Sequence[int], starts: Sequence[int]) -> list[bytes]:
    """Return messages that follow each other, each with its id.

    They begin at `item_starts`, which has the end of the last one too, and their bodies at
    `starts`.
    """
    found: list[bytes] = []
    before_payload, longest = _BEFORE_PAYLOAD, len(_BEFORE_PAYLOAD)
    at = item_starts[0]
    for start, end in zip(starts, item_starts[1:], strict=True):
        size, flags = items[start], items[start + 1]
        fields_end = start + 1 + (size >> 1)
        payload = end - fields_end
        id_end = at + _ID_END
        if size >= MORE_FOLLOWS or not 0 <= payload < longest:
            found.append(items[at:id_end] + framed_message(items, start, end))
        elif flags == _BOTH:
            found.append(
                items[at:id_end]
                + _PRESENT
                + items[start + 2 : fields_end]
                + before_payload[payload]
                + items[fields_end:end]
            )
        elif flags == _KEY:
            found.append(
                items[at:id_end]
                + _PRESENT
                + items[start + 2 : fields_end]
                + _ABSENT
                + before_payload[payload]
                + items[fields_end:end]
            )
        else:
            found.append(items[at:id_end] + framed_message(items, start, end))
        at = end
    return found
