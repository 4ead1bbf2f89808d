"""The lease under which a server leads, as those see it who write."""

from typing import Protocol


class HeldLease(Protocol):
    """The lease under which a server leads, as those ask who write. Any thread may."""

    @property
    def token(self) -> int:
        """The token of the leader: greater than those of all earlier leaders."""
        ...

    @property
    def keys_after_ms(self) -> int:
        """The ceiling of the leaders before: no key of theirs is of a later millisecond."""
        ...

    @property
    def keys_until_ms(self) -> int:
        """The ceiling: keys are of no later millisecond. It moves on with each renewal."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether no other server of the cluster is there any more, as this one stops."""
        ...

    def check(self) -> None:
        """Raise `NoLeader` unless it is held now."""
        ...

    def lose(self) -> None:
        """Hold it no more: the store shows that a later leader has begun."""
        ...

    def give_keys(self, last_ms: int) -> None:
        """Take note that keys up to this millisecond are written.

        Raises `StoreUnavailable` where that is above the ceiling, until a renewal has moved it.
        """
        ...
