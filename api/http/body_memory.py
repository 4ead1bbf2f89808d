"""The memory of large bodies that are still arriving, over all connections.

`request_bytes_max` limits one body; this limits many that are sent slowly at the same time. A body
counts from `COUNTED_FROM_BYTES` on, so slow bodies that fill the memory keep out further large
ones, but not small ones.
"""

from tms.core.errors import QueueFull

COUNTED_FROM_BYTES = 64 * 1024


class BodyMemory:
    """Counts the bytes of large bodies that have partly arrived."""

    def __init__(self, bytes_max: int) -> None:
        """Allow `bytes_max` bytes at a time."""
        self._bytes_max = bytes_max
        self._bytes = 0

    def grow(self, counted: int, size: int) -> int:
        """Count a body that now has `size` bytes, `counted` of them before; return the new count.

        Raises `QueueFull`, and counts nothing, if that is too much.
        """
        if size <= COUNTED_FROM_BYTES or size <= counted:
            return counted
        if self._bytes + size - counted > self._bytes_max:
            raise QueueFull(arriving_bytes=self._bytes, queue_bytes_max=self._bytes_max)
        self._bytes += size - counted
        return size

    def free(self, counted: int) -> None:
        """Stop counting a body: it is complete, or abandoned."""
        self._bytes -= counted
