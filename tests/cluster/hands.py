"""A lease and the hands that it is in."""

LEASE_S = 10.0


class Hands:
    """A clock that is set by hand."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.s = now_s

    def now_s(self) -> float:
        return self.s
