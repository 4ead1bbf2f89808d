"""The memory of bodies that are still arriving, of all connections together.

One body is capped by `request_bytes_max`; many at once, sent slowly, are capped by this.
"""

from tms.core.errors import QueueFull


class ArrivingBytes:
    """Counts the bytes of bodies that have arrived in part."""

    def __init__(self, bytes_max: int) -> None:
        """Allow `bytes_max` bytes at a time."""
        self._bytes_max = bytes_max
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count bytes in. Raises `QueueFull`, and counts nothing, where there are too many."""
        if self._bytes + count > self._bytes_max:
            raise QueueFull(arriving_bytes=self._bytes, queue_bytes_max=self._bytes_max)
        self._bytes += count

    def remove(self, count: int) -> None:
        """Count bytes out: their body is whole, or given up."""
        self._bytes -= count
