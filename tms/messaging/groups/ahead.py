"""Messages that a group has read but not delivered, in memory, so that small takes read nothing.

It keeps about a hundred messages and 256 KiB of each group, for a second. A message that compaction
deleted within that second may still be delivered; one that has expired or was trimmed is not.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tms.core.values.message import ID_BYTES, MessageBlock

READ_MIN: Final = 100
"""At least this number of messages is read at a time. By key a few would not be enough, because
some may have keys that are leased."""
_BYTES_MAX: Final = 256 * 1024
_AGE_MS_MAX: Final = 1_000


class ReadAhead:
    """The bodies of one group's messages, each a block of its own, by id."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, MessageBlock] = {}
        self._bytes = 0
        self._read_ms = 0

    def keep(self, blocks: Iterable[MessageBlock], now_ms: int) -> None:
        """Keep messages that were read at `now_ms`, with those kept within the last second."""
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
        """Forget all messages."""
        self._blocks = {}
        self._bytes = 0

    def give(
        self, ids: Sequence[bytes], oldest: bytes, now_ms: int, bytes_max: int
    ) -> tuple[Sequence[MessageBlock], int]:
        """Remove and return the messages of the first `ids`, up to `bytes_max`; also their count.

        It stops at the first message that is not kept, or that is older than `oldest`: not live.
        """
        if not self._blocks or now_ms - self._read_ms > _AGE_MS_MAX:
            return (), 0
        taken: list[MessageBlock] = []
        size = 0
        for message_id in ids:
            block = self._blocks.get(message_id)
            if block is None or message_id < oldest or size >= bytes_max:
                break
            del self._blocks[message_id]
            taken.append(block)
            size += len(block.items)
        self._bytes -= size
        return [MessageBlock.joined(taken)] if taken[1:] else taken, len(taken)
