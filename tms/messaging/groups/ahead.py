"""Messages that a group has read on and not given yet, in memory, so that small takes read nothing.

At most a hundred or so messages and 256 KiB of each group, for a second: a message that compaction
took away within that second may still be given. One that has expired, or was trimmed, is not.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tms.core.values.message import ID_BYTES, MessageBlock

READ_MIN: Final = 100
"""So many messages are read on at a time. By key it must not be few, because messages may be of
keys that somebody has."""
_BYTES_MAX: Final = 256 * 1024
_AGE_MS_MAX: Final = 1_000


class ReadAhead:
    """The bodies of one group's messages, each a block of its own, by id."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, MessageBlock] = {}
        self._bytes = 0
        self._read_ms = 0

    def keep(self, blocks: Iterable[MessageBlock], now_ms: int) -> None:
        """Keep what was read at `now_ms`, with what was kept of late."""
        if not self._blocks or now_ms - self._read_ms > _AGE_MS_MAX:
            self.forget()
            self._read_ms = now_ms
        for block in blocks:
            framed = frozenset(block.framed)
            start = 0
            for index, end in enumerate(block.payload_spans()[1]):
                if self._bytes + end - start > _BYTES_MAX:
                    return
                item = block.items[start:end]
                one = MessageBlock(1, item, (0,) if index in framed else ())
                self._blocks[item[1 : 1 + ID_BYTES]] = one
                self._bytes += len(item)
                start = end

    def forget(self) -> None:
        """Keep nothing."""
        self._blocks = {}
        self._bytes = 0

    def give(
        self, ids: Sequence[bytes], oldest: bytes, now_ms: int, bytes_max: int
    ) -> tuple[Sequence[MessageBlock], int]:
        """Return the first of `ids` that are kept, at most up to `bytes_max`, and how many.

        They are kept no longer. Those below `oldest` are not live any more.
        """
        if not self._blocks or now_ms - self._read_ms > _AGE_MS_MAX:
            return (), 0
        found: list[MessageBlock] = []
        size = 0
        for each in ids:
            block = self._blocks.get(each)
            if block is None or each < oldest or size >= bytes_max:
                break
            del self._blocks[each]
            found.append(block)
            size += len(block.items)
        self._bytes -= size
        return [MessageBlock.joined(found)] if found[1:] else found, len(found)
