"""How much of a bound one of those may have who share it, so that nobody can use it up alone. Pure.

1. One may have all of a bound less a reserve of a tenth of it, at least 1.
2. The reserve is for those who have less than the reserve: each of them may take of it until it has
   as much as that.
3. Callers without a name, and superusers, may have everything that is left.
"""

RESERVE_PART = 10


def reserve_of(bound: int) -> int:
    """Return how much of a bound is for those who have little; of a bound of 1, nothing."""
    return min(max(1, bound // RESERVE_PART), bound - 1)


def share_of(bound: int, used_by_me: int, used_by_others: int) -> int:
    """Return how much more one may take of a bound; 0 if nothing."""
    left = bound - used_by_me - used_by_others
    reserve = reserve_of(bound)
    return max(0, left - reserve, min(left, reserve - used_by_me))


class Shares:
    """The use of one bound by each principal. Principals without use take no memory."""

    def __init__(self, bound: int, each_max: int = 0) -> None:
        """Let each have `each_max` at most, or its share if that is 0."""
        self.bound = bound
        self.used = 0
        """By all together."""
        self.each_max = each_max
        self._by_sharer: dict[str, int] = {}

    def used_by(self, sharer: str | None) -> int:
        """Return how much somebody has; what those have who are not known is not told apart."""
        return 0 if sharer is None else self._by_sharer.get(sharer, 0)

    @property
    def are_any_known(self) -> bool:
        """Whether anybody has some who is known by a name."""
        return bool(self._by_sharer)

    def room(self, sharer: str | None) -> int:
        """Return how much more somebody may take; None: is not known, or may have all."""
        if sharer is None:
            return max(0, self.bound - self.used)
        mine = self.used_by(sharer)
        if self.each_max:
            return max(0, min(self.each_max - mine, self.bound - self.used))
        return share_of(self.bound, mine, self.used - mine)

    def add(self, sharer: str | None, amount: int = 1) -> None:
        """Count so much more of somebody, be there room or not; less if it is negative."""
        self.used += amount
        if sharer is not None and amount:
            now = self._by_sharer.get(sharer, 0) + amount
            if now:
                self._by_sharer[sharer] = now
            else:
                del self._by_sharer[sharer]
