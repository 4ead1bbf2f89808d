"""A run of a topic's entries, from the Message table or the cache, for the reader.

An entry is a plain message, a transactional one, or a reference to payloads stored under a write
pointer. A run keeps the items encoded (`tms.core.values.message`); a reference has an item with an
empty payload for its place and id, which no reader returns.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tms.core.values.message import KEY_BYTES, MessageBlock, framed_between

PLAIN = 0
"""The pointer of an entry without a transaction. Write pointers are positive."""


@dataclass(frozen=True, slots=True)
class Entries:
    """`count` entries in ascending order of key, without gaps within the topic."""

    count: int
    items: bytes | bytearray
    offsets: Sequence[int] | None = None
    """Where each item starts, then the end. None if all entries are plain, because those are never
    cut.
    """
    pointers: Sequence[int] | None = None
    """Each entry's write pointer, negative if rolled back, PLAIN if plain. None if all are plain.
    """
    references: AbstractSet[int] = frozenset()
    """The indexes of the entries that are references."""
    framed: Sequence[int] = ()
    """The indexes of the entries with a key or headers, ascending."""
    bounds: tuple[int, int] | None = None
    """All write pointers are between these; the first is negative if any is. None if not known."""

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
