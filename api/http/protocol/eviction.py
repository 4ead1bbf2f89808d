"""Decides which connection is closed first if there are too many.

The address with the most connections loses one, and so on with the remaining ones. Of the
connections of an address, the one that has waited for its client for longest is closed first. A
connection is closed only if it still waits as it did when it was ranked.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
RANKED_S = 1.0
"""How long an order is used: computing it visits each connection that waits."""


def eviction_order(waiting: Iterable[tuple[T, str]], counts: Mapping[str, int]) -> list[T]:
    """Return connections in the order in which they are closed. Pure.

    `waiting` are those that may be closed, each with its address, the one that has waited for
    longest first. `counts` has the number of all connections of each address.
    """
    remaining: dict[str, int] = {}
    ranked = []
    for age, (connection, address) in enumerate(waiting):
        count = remaining.get(address, counts[address])
        remaining[address] = count - 1
        ranked.append((-count, age, connection))
    ranked.sort(key=lambda each: each[:2])
    return [connection for _, _, connection in ranked]


class Evictions(Generic[T]):
    """Chooses the next connection to close."""

    def __init__(
        self,
        waiting: Callable[[], Iterable[tuple[T, str, float]]],
        waits_since: Callable[[T], float | None],
    ) -> None:
        """Choose from `waiting`, which returns connections, their addresses and starts of waiting.

        `waits_since` returns the start of waiting of a connection, None if it must stay.
        """
        self.counts: Counter[str] = Counter()
        """The number of connections of each address."""
        self._waiting = waiting
        self._waits_since = waits_since
        self._ranked: deque[tuple[T, float]] = deque()
        self._ranked_until_s = 0.0

    def enter(self, address: str) -> None:
        """Count a connection."""
        self.counts[address] += 1

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        self.counts[address] -= 1
        if not self.counts[address]:
            del self.counts[address]

    def next(self, now_s: float) -> T | None:
        """Return the connection to close, at a time of the loop; None if all must stay."""
        if now_s < self._ranked_until_s:
            first = self._first()
            if first is not None:
                return first
        self._rank(now_s)
        return self._first()

    def _first(self) -> T | None:
        while self._ranked:
            connection, since_s = self._ranked.popleft()
            if self._waits_since(connection) == since_s:
                return connection
        return None

    def _rank(self, now_s: float) -> None:
        waiting = sorted(self._waiting(), key=lambda each: each[2])
        since = {connection: since_s for connection, _, since_s in waiting}
        order = eviction_order([each[:2] for each in waiting], self.counts)
        self._ranked = deque((connection, since[connection]) for connection in order)
        self._ranked_until_s = now_s + RANKED_S
