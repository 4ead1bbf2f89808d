"""The length of a lease, and a clock that tests set."""

LEASE_S = 10.0


class Hands:
    """A clock that a test sets by hand."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.s = now_s

    def now_s(self) -> float:
        return self.s
