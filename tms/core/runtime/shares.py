"""Fair shares of a bound, so that no principal can use it up alone. Pure.

1. One principal may have the whole bound less a reserve of a tenth, at least 1.
2. The reserve is for principals that have less than it: each may take from it until it has as much
   as the reserve.
3. Callers without a name, and superusers, may have all that remains.
"""

RESERVE_PART = 10


def reserve_of(bound: int) -> int:
    """Return how much of a bound is reserved for those who have little; 0 for a bound of 1."""
    return min(max(1, bound // RESERVE_PART), bound - 1)


def share_of(bound: int, used_by_me: int, used_by_others: int) -> int:
    """Return how much more one principal may take of a bound."""
    free = bound - used_by_me - used_by_others
    reserve = reserve_of(bound)
    return max(0, free - reserve, min(free, reserve - used_by_me))


class Shares:
    """The use of one bound by each principal. Principals without use take no memory."""

    def __init__(self, bound: int, each_max: int = 0) -> None:
        """Limit each principal to `each_max`, or to its share if that is 0."""
        self.bound = bound
        self.used = 0
        """The use of all together."""
        self.each_max = each_max
        self._by_sharer: dict[str, int] = {}

    def used_by(self, sharer: str | None) -> int:
        """Return the use of a principal; 0 for callers without a name."""
        return 0 if sharer is None else self._by_sharer.get(sharer, 0)

    @property
    def has_named(self) -> bool:
        """Whether any caller with a name uses some of the limit."""
        return bool(self._by_sharer)

    def room(self, sharer: str | None) -> int:
        """Return how much more a principal may take; None for the unnamed, who may take all."""
        if sharer is None:
            return max(0, self.bound - self.used)
        mine = self.used_by(sharer)
        if self.each_max:
            return max(0, min(self.each_max - mine, self.bound - self.used))
        return share_of(self.bound, mine, self.used - mine)

    def add(self, sharer: str | None, amount: int = 1) -> None:
        """Add to a principal's use, even without room; negative to reduce it."""
        self.used += amount
        if sharer is not None and amount:
            now = self._by_sharer.get(sharer, 0) + amount
            if now:
                self._by_sharer[sharer] = now
            else:
                del self._by_sharer[sharer]
