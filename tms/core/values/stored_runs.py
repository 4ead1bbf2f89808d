"""A stored run: the messages behind one reference, as far as they were read."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from tms.core.values.entries import Entries
from tms.core.values.message import ID_BYTES, KEY_BYTES, MessageBlock

_ITEM_BYTES = 1 + ID_BYTES + 1
"""The least bytes of an item without its payload: reads of the table count only payloads."""


class Reference(NamedTuple):
    """An entry of the Message table that refers to messages stored under a write pointer."""

    message_key: bytes
    write_pointer: int
    """Negative if it is rolled back."""
    first_key: bytes
    """The payload key to read from."""


@dataclass(slots=True)
class ReadRun:
    """The stored messages of a reference, from `first_key` to before `next_key`."""

    message_key: bytes
    write_pointer: int
    first_key: bytes
    block: MessageBlock
    next_key: bytes | None
    """None if nothing more is stored."""
    _starts: "array[int] | None" = field(default=None, init=False, repr=False)

    def part(
        self, first_key: bytes, *, limit: int, bytes_max: int
    ) -> tuple[MessageBlock, bytes | None]:
        """Return messages from `first_key` (>= that of the run) on, and the key to continue from.

        At most `limit` (>= 1) of them, and no more once they have about `bytes_max` bytes, but at
        least one if there is one. The key is None if no more are stored.
        """
        block = self.block
        fits = block.count <= limit and len(block.items) - _ITEM_BYTES * block.count <= bytes_max
        if block.count == 0 or (fits and first_key <= self._key(0)):
            return block, self.next_key
        if self._starts is None:
            self._starts = array("Q", (0, *block.payload_spans()[1]))
        starts = self._starts
        first = bisect_left(starts, first_key, hi=block.count, key=self._key)
        stop = min(first + limit, block.count)
        if first < stop:
            stop = min(stop, bisect_left(starts, starts[first] + bytes_max, first + 1, stop))
        entries = Entries(block.count, block.items, starts, framed=block.framed)
        next_key = self.next_key if stop == block.count else self._key(starts[stop])
        return entries.block(first, stop), next_key

    def _key(self, start: int) -> bytes:
        """Return the payload key of the message that starts at a byte of the block."""
        return self.block.items[start + 1 + KEY_BYTES : start + 1 + ID_BYTES]
