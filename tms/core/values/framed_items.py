"""Messages with a key or headers as items of a block: the form of `avro/binary;version=2`.

    message := key union (null, bytes), headers map of bytes, payload union (null, bytes)

The bytes of the key and the headers are those of a frame's fields (`tms.core.values.frame`). So a
body becomes such an item, and an item a body, without decoding them.
"""

from tms.core.errors import StoreCorrupt
from tms.core.values.avro_lengths import avro_length, read_length
from tms.core.values.frame import (
    HEADERS_FLAG,
    KEY_FLAG,
    NO_PAYLOAD_FLAG,
    Frame,
    frame_parts,
    read_fields,
)
from tms.core.values.varints import MORE_FOLLOWS

_ABSENT, _PRESENT = b"\x00", b"\x02"
"""The branches of a union of null and bytes; the first also ends a map."""
_SHOWN_BYTES = 20


def framed_item(body: bytes) -> bytes:
    """Return the message whose body begins with a frame. Raises `StoreCorrupt`."""
    flags, fields, fields_end = frame_parts(body)
    head = (_PRESENT if flags & KEY_FLAG else _ABSENT) + body[fields:fields_end]
    if not flags & HEADERS_FLAG:
        head += _ABSENT
    if flags & NO_PAYLOAD_FLAG:
        return head + _ABSENT
    return head + _PRESENT + avro_length(len(body) - fields_end) + body[fields_end:]


def framed_item_parts(items: bytes, at: int) -> tuple[int, int, int, int]:
    """Return the flags of the message at `at`, where its fields end, and its payload's two ends.

    The fields begin after `at`. Raises `StoreCorrupt`.
    """
    flags, end = 0, at + 1
    try:
        if items[at]:
            flags = KEY_FLAG
            size, end = read_length(items, end)
            end += size
        payload = end + 1
        if items[end]:
            flags |= HEADERS_FLAG
            count, end = read_length(items, end)
            for _ in range(2 * count):
                size = items[end]
                if size < MORE_FOLLOWS:  # most names and values are short
                    end += 1 + (size >> 1)
                else:
                    size, end = read_length(items, end)
                    end += size
            end = payload = end + 1
        if not items[payload]:
            return flags | NO_PAYLOAD_FLAG, end, payload + 1, payload + 1
        size, payload = read_length(items, payload + 1)
    except (IndexError, ValueError):
        raise StoreCorrupt(item_start=items[at : at + _SHOWN_BYTES].hex()) from None
    return flags, end, payload, payload + size


def read_framed_item(items: bytes, at: int) -> tuple[Frame, int]:
    """Return the fields of the message at `at`, and where its payload and so it ends."""
    flags, fields_end, payload, end = framed_item_parts(items, at)
    key, headers = read_fields(flags, items[at + 1 : fields_end])
    return Frame(key, headers, not flags & NO_PAYLOAD_FLAG, payload), end
