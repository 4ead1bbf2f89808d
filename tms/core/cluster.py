"""Several servers on one store, of which one leads: what is told of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Role(Enum):
    """What a server is in its cluster."""

    ALONE = "alone"
    """It was not told to take part in one."""
    STANDBY = "standby"
    TAKING_OVER = "taking over"
    """It is to lead, and waits until nothing of the leader before can be under way any more."""
    LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A server that takes part."""

    id: int
    """Given to no other, ever."""
    address: str
    """The URL by which the others reach it."""
    version: str
    since_ms: int
    """When it registered, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """How a cluster stands, as the server asked knows it."""

    id: int | None
    """Of the server asked; None where it is alone."""
    role: Role
    leader: int | None
    """Whose turn it is, be it that it takes over yet; None where nobody's."""
    token: int | None
    """Of this leadership: greater than that of every one before."""
    instances: Sequence[Instance] = ()


class Cluster(Protocol):
    """The cluster that a server takes part in."""

    async def state(self) -> ClusterState:
        """Return how it stands. Raises `Unavailable`."""
        ...
