"""The lease under which a server leads, as writers see it."""

from typing import Protocol


class HeldLease(Protocol):
    """The lease under which a server leads, for writers. Any thread may use it."""

    @property
    def token(self) -> int:
        """The token of the leader: greater than those of all earlier leaders."""
        ...

    @property
    def keys_after_ms(self) -> int:
        """The ceiling of the earlier leaders: none of their keys has a later millisecond."""
        ...

    @property
    def keys_until_ms(self) -> int:
        """The ceiling: no key has a later millisecond. Each renewal raises it."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether no other server of the cluster is left as this one stops."""
        ...

    def check(self) -> None:
        """Raise `NoLeader` unless it is held now."""
        ...

    def lose(self) -> None:
        """Give the lease up: the store shows that a later leader has begun."""
        ...

    def give_keys(self, last_ms: int) -> None:
        """Record that keys up to this millisecond are written.

        Raises `StoreUnavailable` if that is above the ceiling, until a renewal has raised it.
        """
        ...
