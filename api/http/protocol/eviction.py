"""Which connection goes first when there are too many.

The address that has most connections gives one up, and so on with what is left then. Of one address
the one that has waited for its client for longest goes first. One goes only if it still waits as it
did when it was ranked.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
RANKED_S = 1.0
"""How long an order holds: to make it costs a look at each connection that waits."""


def eviction_order(waiting: Iterable[tuple[T, str]], counts: Mapping[str, int]) -> list[T]:
    """Return connections in the order in which they go. Pure.

    `waiting` are those that may go, each with its address, the one that has waited for longest
    first. `counts` says how many connections each address has in all.
    """
    left: dict[str, int] = {}
    ranked = []
    for age, (connection, address) in enumerate(waiting):
        has = left.get(address, counts[address])
        left[address] = has - 1
        ranked.append((-has, age, connection))
    ranked.sort(key=lambda each: each[:2])
    return [connection for _, _, connection in ranked]


class Evictions(Generic[T]):
    """Gives out which connection is to go next."""

    def __init__(
        self,
        waiting: Callable[[], Iterable[tuple[T, str, float]]],
        waits_since: Callable[[T], float | None],
    ) -> None:
        """Choose among those that `waiting` returns: each with its address and when its wait began.

        `waits_since` returns when that of one began; None if it may not go now.
        """
        self.counts: Counter[str] = Counter()
        """How many connections each address has."""
        self._waiting = waiting
        self._waits_since = waits_since
        self._ranked: deque[tuple[T, float]] = deque()
        self._ranked_until_s = 0.0

    def enter(self, address: str) -> None:
        """Count a connection in."""
        self.counts[address] += 1

    def leave(self, address: str) -> None:
        """Count a connection out."""
        self.counts[address] -= 1
        if not self.counts[address]:
            del self.counts[address]

    def next(self, now_s: float) -> T | None:
        """Return the connection that is to go, at a time of the loop; None if none may."""
        if now_s < self._ranked_until_s:
            found = self._first()
            if found is not None:
                return found
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
