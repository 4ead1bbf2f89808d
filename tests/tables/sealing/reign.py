"""A lease for stores that are sealed."""

from tms.core.errors import NoLeader


class Reign:
    """A lease that is held."""

    is_last = False

    def __init__(self, token: int, keys_after_ms: int, keys_until_ms: int) -> None:
        self.token = token
        self.keys_after_ms = keys_after_ms
        self.keys_until_ms = keys_until_ms

    def check(self) -> None:
        """Hold it."""

    def lose(self) -> None:
        """Hold it."""

    def give_keys(self, last_ms: int) -> None:
        if last_ms > self.keys_until_ms:
            raise NoLeader(token=self.token)
