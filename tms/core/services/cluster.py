"""Several servers on one store, of which one leads: what is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from tms.core.services.findings import Finding
from tms.core.values.shards import ShardBy, Sharding

FORWARDED_BY = "tms-forwarded-by"
"""A header: the number of the server that passes a request on, and that of who passed its answer
on."""
MISSING_SHARDS = "tms-missing-shards"
"""A header of lists over all shards: the numbers of those that it leaves out, because no server
leads them, with commas between them."""
INSTANCE = "tms-instance"
"""A header of answers about a server's health: its number in its cluster."""
LEADER = "tms-leader"
"""A header of answers that were passed on: the address of the server that gave them."""


class Role(Enum):
    """The role of a server in its cluster."""

    ALONE = "alone"
    """It was not told to take part in one."""
    STANDBY = "standby"
    TAKING_OVER = "taking over"
    """It is to lead, and opens the store."""
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
    store_format: int = 1
    """The newest format of the shared store that it knows; versions that do not say it know 1."""
    features: tuple[str, ...] = ()
    """The features of stores that it knows (`tms.core.values.store_features`)."""
    reaches_store_since_ms: int | None = None
    """Since when it reaches the store, in milliseconds since 1970; None while it does not, and of
    versions that do not say it."""
    boot: str = ""
    """Which process it is, of all that have its address; empty if it takes nothing sealed."""
    agreed: Mapping[str, str | int] = field(default_factory=dict)
    """The settings in which the servers of a cluster agree, by name; of versions that do not say
    them, and that are not there, nothing is known."""
    is_stopping: bool = False
    """Whether it closes what it leads, and is not to lead anything any more."""
    unreached_servers: tuple[int, ...] = ()
    """The servers that it does not reach at their addresses."""
    unopened_shards: tuple[int, ...] = ()
    """The shards that it could not open, and that no server has served since."""


class ShardStanding(Enum):
    """How a shard of a store stands."""

    SERVING = "serving"
    TAKING_OVER = "taking over"
    """Its next leader opens it."""
    MOVING = "moving"
    """Its leader closes it, so that another may lead it."""
    FREE = "free"
    """Nobody leads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """The state of one shard."""

    shard: int
    """Its number, from 0 on."""
    leader: int | None
    """The server that leads it, or takes it over; None if none does, or a server is alone."""
    token: int | None
    """The token of its leader; None as above."""
    state: ShardStanding = ShardStanding.SERVING
    wish: int | None = None
    """The server that an operator wishes to lead it; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of a cluster, as the answering server knows it."""

    id: int | None
    """The id of the server that answers; None if it is alone."""
    role: Role
    leader: int | None
    """Whose turn it is, be it that it takes over yet; None where nobody's."""
    token: int | None
    """The token of the leader: greater than those of all earlier leaders."""
    instances: Sequence[Instance] = ()
    by: ShardBy | None = None
    """The rule by which topics are in shards; None if the store has one."""
    shards: Sequence[ShardState] = ()
    """The shards in order, if the store has several."""

    def with_shards(self, sharding: Sharding) -> "ClusterState":
        """Return it with the shards of the store, all of which the leader leads."""
        shards = [
            ShardState(shard=shard, leader=self.leader, token=self.token)
            for shard in range(sharding.shards)
        ]
        return replace(self, by=sharding.by, shards=shards)


class Cluster(Protocol):
    """The cluster that a server takes part in."""

    async def state(self) -> ClusterState:
        """Return how it stands. Raises `Unavailable`."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Return which servers are unreachable; always in the same time."""
        ...
