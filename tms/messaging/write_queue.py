"""What waits to be written, and what of it one flush takes.

Small requests go first, in the order in which they came; then one large request at most. So who
publishes one message does not wait for all that others publish a hundred thousand at a time, and a
large request waits for no more than the small ones of each flush: each flush takes one.

Requests that are queued at the same time have no order among each other: a caller that needs one
waits for the answer.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

LARGE_BYTES = 1024 * 1024
"""From this size on a request is large: writing it takes milliseconds, so it gains nothing by
sharing a flush with others."""

HALF_FROM_BYTES = 256 * 1024
"""From this size on a flush takes no more than half of the requests that there are. With all of
them in one, callers wait for the disk and then the disk for callers; so the next half is received
while one is written: a fifth more messages/s with 32 connections that publish 100 at a time."""


class WriteQueue(Generic[T]):
    """Requests by size, and how many bytes they have in all."""

    def __init__(self, flush_bytes_max: int) -> None:
        """Have a flush take no more once it has `flush_bytes_max` bytes."""
        self._flush_bytes_max = flush_bytes_max
        self._small: deque[tuple[T, int]] = deque()
        self._large: deque[tuple[T, int]] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def add(self, request: T, size_bytes: int) -> None:
        """Queue a request."""
        queue = self._small if size_bytes < LARGE_BYTES else self._large
        queue.append((request, size_bytes))
        self.size_bytes += size_bytes

    def take(self, outstanding: int) -> list[T]:
        """Take what one flush writes.

        `outstanding` is how many requests there were at the end of the last flush: those it
        answered, and those that waited.
        """
        taken: list[T] = []
        size = 0
        half = (max(outstanding, len(self)) + 1) // 2
        small = self._small
        while small and size < self._flush_bytes_max:
            if size >= HALF_FROM_BYTES and len(taken) >= half:
                break
            request, request_bytes = small.popleft()
            taken.append(request)
            size += request_bytes
        if self._large and (not taken or size < self._flush_bytes_max):
            request, request_bytes = self._large.popleft()
            taken.append(request)
            size += request_bytes
        self.size_bytes -= size
        return taken
