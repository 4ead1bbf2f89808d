"""The memory of large bodies that are still arriving, of all connections together.

One body is capped by `request_bytes_max`; many at once, sent slowly, are capped by this. A body
counts from `COUNTED_FROM_BYTES` on: those that come slowly and fill the memory refuse further
large ones, not small ones.
"""

from tms.core.errors import QueueFull

COUNTED_FROM_BYTES = 64 * 1024


class BodyMemory:
    """Counts the bytes of large bodies that have arrived in part."""

    def __init__(self, bytes_max: int) -> None:
        """Allow `bytes_max` bytes at a time."""
        self._bytes_max = bytes_max
        self._bytes = 0

    def grow(self, counted: int, size: int) -> int:
        """Count a body of now `size` bytes, of which `counted` are counted; return what is now.

        Raises `QueueFull`, and counts nothing, if that is too much.
        """
        if size <= COUNTED_FROM_BYTES or size <= counted:
            return counted
        if self._bytes + size - counted > self._bytes_max:
            raise QueueFull(arriving_bytes=self._bytes, queue_bytes_max=self._bytes_max)
        self._bytes += size - counted
        return size

    def free(self, counted: int) -> None:
        """Count a body out: it is whole, or given up."""
        self._bytes -= counted
