"""The queue of requests to write, and the choice of those that one flush takes.

Small requests go first, in the order in which they came, then one large request at most. While
small requests wait, every second flush takes no large one. So a small request waits for one large
request at most, however many there are, and a large one for two flushes of small ones for each
large one before it. The writer may hold large requests back for as long as the store is behind.

There is room for so many requests, and bytes, and for one that is larger alone. Of both, each
principal has its share.

Requests that are queued at the same time have no order among each other: a caller that needs one
waits for the answer.
"""

from collections import deque
from typing import Generic, TypeVar

from tms.core.limits import Limits
from tms.core.runtime.shares import Shares

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

    def __init__(self, limits: Limits) -> None:
        """Have room for what limits say, and a flush take no more once it is over theirs."""
        self._flush_bytes_max = limits.flush_bytes_max
        self._small: deque[tuple[T, int, str | None]] = deque()
        self._large: deque[tuple[T, int, str | None]] = deque()
        self._requests = Shares(limits.queue_requests_max)
        self._bytes = Shares(limits.queue_bytes_max)
        self._took_large = False
        """Whether the last flush took a large request."""

    def __len__(self) -> int:
        return self._requests.used

    @property
    def size_bytes(self) -> int:
        """How many bytes wait."""
        return self._bytes.used

    def has_room(self, size_bytes: int, sharer: str | None) -> bool:
        """Whether a request may be queued, of somebody who has a share, or None."""
        # Alone it may be over the bound by itself: it would never fit.
        is_alone = not self._requests.used
        return is_alone or (
            self._requests.room(sharer) > 0 and self._bytes.room(sharer) >= size_bytes
        )

    def add(self, request: T, size_bytes: int, sharer: str | None = None) -> None:
        """Queue a request."""
        queue = self._small if size_bytes < LARGE_BYTES else self._large
        queue.append((request, size_bytes, sharer))
        self._requests.add(sharer)
        self._bytes.add(sharer, size_bytes)

    @property
    def has_large(self) -> bool:
        """Whether a large request waits."""
        return bool(self._large)

    def take(self, outstanding: int, *, with_large: bool = True) -> list[T]:
        """Take what one flush writes; nothing if only large requests wait and none may be taken.

        `outstanding` is how many requests there were at the end of the last flush: those it
        answered, and those that waited.
        """
        taken: list[tuple[T, int, str | None]] = []
        size = 0
        half = (max(outstanding, len(self)) + 1) // 2
        small = self._small
        while small and size < self._flush_bytes_max:
            if size >= HALF_FROM_BYTES and len(taken) >= half:
                break
            taken.append(small.popleft())
            size += taken[-1][1]
        is_full = taken and (self._took_large or size >= self._flush_bytes_max)
        self._took_large = with_large and self.has_large and not is_full
        if self._took_large:
            taken.append(self._large.popleft())
        sizes: dict[str | None, list[int]] = {}
        for _, request_bytes, sharer in taken:
            sizes.setdefault(sharer, []).append(request_bytes)
        for sharer, of_sharer in sizes.items():
            self._requests.add(sharer, -len(of_sharer))
            self._bytes.add(sharer, -sum(of_sharer))
        return [request for request, _, _ in taken]
