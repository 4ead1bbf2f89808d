"""Builds pages: all messages that are read, or those of them that match a filter.

With a filter the messages read are counted, not those that match, so a page costs no more to read.
"""

from dataclasses import dataclass, field
from typing import Final

from tms.core.services.messaging import FilteredPage, Page
from tms.core.values.filters import Filter
from tms.core.values.message import KEY_BYTES, NO_PAYLOAD_KEY, MessageBlock, id_after, key_after
from tms.messaging.stored_reader import StoredReader

READ_MAX: Final = 2_000
"""A page ends after this many messages are tested: others need the event loop too."""


@dataclass(slots=True)
class PageBuilder:
    """The page being assembled."""

    position: bytes
    limit: int
    bytes_max: int
    stored: StoredReader
    end: bytes | None = None
    blocks: list[MessageBlock] = field(default_factory=list)
    count: int = 0
    size: int = 0
    done: bool = False
    stopped_at: int | None = None
    cached_from: bytes = b""
    """Entries before this key are read from the table: they may have been deleted there."""

    def add(self, block: MessageBlock) -> None:
        """Add the next messages."""
        if block.count:
            self.blocks.append(block)
            self.count += block.count
            self.size += len(block.items)

    @property
    def stop_key(self) -> bytes | None:
        """The first key whose entry is not read; None if all are read."""
        if self.end is None:
            return None
        key = self.end[:KEY_BYTES]
        return key if self.end[KEY_BYTES:] == NO_PAYLOAD_KEY else key_after(key)

    @property
    def full(self) -> bool:
        """Whether no more messages may be added."""
        return self.count >= self.limit or self.size >= self.bytes_max

    def page(self) -> Page:
        """Return the page."""
        next_position = None if self.done else self.position
        return Page(self.blocks, self.count, next_position, self.stopped_at)


@dataclass(slots=True, kw_only=True)
class FilteredPageBuilder(PageBuilder):
    """The page being assembled; `count`, `size` and `limit` are about the messages read."""

    filter: Filter
    remaining: int
    """How many more messages to return."""
    read_to: bytes
    """The position after the last message that was read; the reader's if none was."""
    start: bytes
    matching: int = 0
    is_cut: bool = False
    """Whether the last message to return was found, so what follows it was not read."""

    def add(self, block: MessageBlock) -> None:
        """Test the next messages, and add those that match."""
        if not block.count:
            return
        self.count += block.count
        self.size += len(block.items)
        found, last_id = self.filter.matching(block, self.remaining)
        self.is_cut = last_id is not None
        self.read_to = id_after(last_id or block.last_id())
        if found.count:
            self.blocks.append(found)
            self.matching += found.count
            self.remaining -= found.count

    @property
    def full(self) -> bool:
        """Whether no more messages may be read."""
        return self.is_cut or self.count >= self.limit or self.size >= self.bytes_max

    def page(self) -> FilteredPage:
        """Return the page."""
        position = self.read_to
        if not self.is_cut and self.position != self.start:
            position = max(self.position, position)
        if self.done and not self.is_cut:
            return FilteredPage(self.blocks, self.matching, None, self.stopped_at, position)
        return FilteredPage(self.blocks, self.matching, position, None, position)
