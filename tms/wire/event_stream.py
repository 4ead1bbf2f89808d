r"""Server-sent events: the messages of a topic as `text/event-stream` (the HTML standard, 9.2).

    message  := "id: " ID "\n" "data: " JSON "\n\n"        JSON as in the answer to a poll
    position := "id: " ID "\n\n"                           the next message is after this id
    stop     := "event: stopped\n" "data: " JSON "\n\n"    the transaction that the reader waits for

A browser sends the last id that it has seen as `Last-Event-ID`. It shows no event for a position,
which has no data.
"""

from functools import lru_cache
from typing import Final

from tms.core.values.message import FIRST_ID, MessageBlock, id_before
from tms.wire.json_messages import encode_row
from tms.wire.json_values import encode

EVENT_STREAM_TYPE: Final = "text/event-stream"
RETRY: Final = b"retry: 1000\n\n"
"""Makes browsers connect again after a second."""
_SHARED_MAX, _SHARED_BYTES_MAX = 64, 64 * 1024


def encode_events(block: MessageBlock) -> bytes:
    """Return the messages of a block as events."""
    if len(block.items) > _SHARED_BYTES_MAX:
        return _events(block)
    return _shared_events(block.count, block.items, tuple(block.framed))


@lru_cache(_SHARED_MAX)
def _shared_events(count: int, items: bytes, framed: tuple[int, ...]) -> bytes:
    """Encode what many streams send at once, which is the same bytes for all of them."""
    return _events(MessageBlock(count, items, framed))


def _events(block: MessageBlock) -> bytes:
    return b"".join(
        b"id: %s\ndata: %s\n\n" % (message.id.hex().encode(), encode_row(message))
        for message in block
    )


def encode_position(position: bytes) -> bytes:
    """Return the event that says where a reader is.

    Even before the first message there is an id: a reader that began at the end of an empty topic,
    and connects again, must not begin at a later end.
    """
    seen = FIRST_ID if position == FIRST_ID else id_before(position)
    return b"id: %s\n\n" % seen.hex().encode()


def encode_stop(transaction_id: int) -> bytes:
    """Return the event that names the transaction at which a reader stopped."""
    return b"event: stopped\ndata: %s\n\n" % encode({"transaction_id": str(transaction_id)})
