"""Reads the answer to a poll in `avro/binary;version=2`, for the client (`avro_frames`)."""

from typing import NamedTuple

from tms.core.values.avro_lengths import read_length
from tms.core.values.message import ID_BYTES, ITEM_START, MessageBlock
from tms.wire.avro import invalid
from tms.wire.avro_bodies import plain_run
from tms.wire.avro_message import OtherForm, spans_of


class AvroRunsDecoder:
    """Cuts the answer to a poll into blocks of messages as it arrives.

    Of messages with only payloads it reads just the lengths, so they are decoded once, when a
    caller iterates over the block. Between two pieces it keeps at most the start of one message.
    """

    def __init__(self) -> None:
        """Start before the first run."""
        self._rest = b""
        self._runs = 0
        """How many runs remain in the outer array's block."""
        self._is_framed: bool | None = None
        """The array of a run that comes next; None outside a run."""
        self._left = 0
        """How many items remain in that array's block."""
        self._ended = False
        self.last_id = b""
        """The id of the last message returned, empty before the first."""

    def feed(self, data: bytes) -> MessageBlock:
        """Return the messages that `data` completes, if any. Raises `InvalidRequest`."""
        received = self._rest + data
        items: list[bytes] = []
        framed: list[int] = []
        count = at = 0
        while not self._ended:
            if not self._left:
                try:
                    announced, at = read_length(received, at)
                except IndexError:
                    break
                except ValueError as error:  # Our server never sends a block with its size.
                    raise invalid(str(error)) from None
                self._announced(announced)
                continue
            if self._is_framed:
                found = _framed_items(received, at, self._left)
                framed += range(count, count + len(found.items))
                items += found.items
                taken, end = len(found.items), found.end
            else:
                taken, end, last_start = plain_run(received, at, self._left)
                items.append(received[at:end])
                if last_start is not None:
                    self.last_id = received[last_start + 1 : last_start + 1 + ID_BYTES]
            if self._is_framed and taken:
                self.last_id = items[-1][1 : 1 + ID_BYTES]
            count, at = count + taken, end
            self._left -= taken
            if self._left:
                break
        self._rest = received[at:]
        return MessageBlock(count, b"".join(items), framed)

    def _announced(self, count: int) -> None:
        """Record the count that begins a block of an array, or the array's end."""
        if self._is_framed is None:
            self._ended = count == 0
            self._runs = count
            self._is_framed = None if self._ended else False
        elif count:
            self._left = count
        elif not self._is_framed:
            self._is_framed = True
        else:
            self._runs -= 1
            self._is_framed = False if self._runs else None

    def close(self) -> None:
        """Raise `InvalidRequest` (invalid_body) unless the array's end has been seen."""
        if not self._ended or self._rest:
            raise invalid("the answer is cut off")


class _Framed(NamedTuple):
    items: list[bytes]
    end: int


def _framed_items(data: bytes, at: int, remaining: int) -> _Framed:
    """Return the complete framed messages from `at` on, as items of a block."""
    items: list[bytes] = []
    id_bytes = len(ITEM_START) + ID_BYTES
    while remaining and len(data) > at + id_bytes:
        try:
            spans = spans_of(data, at + id_bytes)
        except IndexError:
            break
        except (ValueError, OtherForm) as error:
            raise invalid(str(error)) from None
        items.append(data[at : spans.end])
        at = spans.end
        remaining -= 1
    return _Framed(items, at)
