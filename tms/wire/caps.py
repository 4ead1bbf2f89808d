"""How many of something a body may have, checked before they are all decoded."""

from functools import lru_cache
from typing import NamedTuple

from tms.core.errors import TooLarge


class Cap(NamedTuple):
    """The most there may be, and what is said where there is more."""

    code: str
    limit: str
    """The name of the limit in `tms.core.limits.Limits`."""
    count_max: int

    def check(self, count: int) -> None:
        """Raise `TooLarge` where `count` is over it."""
        if count > self.count_max:
            raise TooLarge(self.code, count=count, **{self.limit: self.count_max})


@lru_cache
def messages_cap(messages_max: int) -> Cap:
    """Return the cap of a publish."""
    return Cap("too_many_messages", "request_messages_max", messages_max)


def changes_cap(changes_max: int) -> Cap:
    """Return the cap of a transaction's changes."""
    return Cap("too_many_changes", "transaction_changes_max", changes_max)
