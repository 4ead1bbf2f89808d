"""A run of a topic's entries, as the Message table or the cache gives it to the reader.

An entry is a plain message, a transactional one, or a reference to payloads stored under a write
pointer. A run keeps the items encoded (`tms.core.values.message`); a reference has an item with an
empty payload, which gives it a place and an id, and which no reader hands out.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tms.core.values.message import KEY_BYTES, MessageBlock, framed_between

PLAIN = 0
"""The pointer of an entry that belongs to no transaction. Write pointers are positive."""


@dataclass(frozen=True, slots=True)
class Entries:
    """`count` entries in ascending order of key, without gaps within the topic."""

    count: int
    items: bytes | bytearray
    offsets: Sequence[int] | None = None
    """Where each item starts, then the end. None where all entries are plain: nobody cuts those."""
    pointers: Sequence[int] | None = None
    """Each entry's write pointer, negative where rolled back, PLAIN where none. None: all plain."""
    references: AbstractSet[int] = frozenset()
    """The indexes of the entries that are references."""
    framed: Sequence[int] = ()
    """The indexes of the entries that have key or headers, ascending."""
    bounds: tuple[int, int] | None = None
    """No write pointer is below the first or above the second; the first is negative where any is.
    None where that is not known."""

    def key(self, index: int) -> bytes:
        """Return the row key's last ten bytes, timestamp and sequence id, of the entry `index`."""
        assert self.offsets is not None or index == 0
        start = (self.offsets[index] if self.offsets else 0) + 1
        return bytes(self.items[start : start + KEY_BYTES])

    def block(self, start: int, stop: int) -> MessageBlock:
        """Return the entries from index `start` to before `stop` as messages."""
        offsets = self.offsets
        if offsets is None:
            assert (start, stop) == (0, self.count)
            return MessageBlock(self.count, bytes(self.items), self.framed)
        items = bytes(self.items[offsets[start] : offsets[stop]])
        if not self.framed:
            return MessageBlock(stop - start, items)
        framed = framed_between(self.framed, start, stop)
        return MessageBlock(stop - start, items, framed, offsets[start : stop + 1])


EMPTY = Entries(0, b"")
