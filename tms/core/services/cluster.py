"""Several servers on one store, one of which leads: the values that describe them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from tms.core.services.findings import Finding
from tms.core.values.shards import ShardBy, Sharding

FORWARDED_BY = "tms-forwarded-by"
"""A header: the number of the server that forwards a request, or that forwarded its answer."""
MISSING_SHARDS = "tms-missing-shards"
"""A header of lists over all shards: the numbers of the shards that are left out because no server
leads them, separated by commas.
"""
INSTANCE = "tms-instance"
"""A header of answers about a server's health: its number in its cluster."""
LEADER = "tms-leader"
"""A header of forwarded answers: the address of the server that answered."""


class Role(Enum):
    """The role of a server in its cluster."""

    ALONE = "alone"
    """It does not take part in a cluster."""
    STANDBY = "standby"
    TAKING_OVER = "taking over"
    """It is about to lead, and opens the store."""
    LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A server that takes part."""

    id: int
    """Never given to another server."""
    address: str
    """The URL at which the others reach it."""
    version: str
    since_ms: int
    """When it registered, in milliseconds since 1970."""
    store_format: int = 1
    """The newest format of the shared store that it knows; 1 for versions that do not say."""
    features: tuple[str, ...] = ()
    """The features of stores that it knows (`tms.core.values.store_features`)."""
    reaches_store_since_ms: int | None = None
    """Since when it reaches the store, in milliseconds since 1970; None if it does not, or if its
    version does not say.
    """
    boot: str = ""
    """Identifies the process among those that have had its address; empty if it accepts no sealed
    forwards.
    """
    agreed: Mapping[str, str | int] = field(default_factory=dict)
    """The settings on which the servers of a cluster must agree, by name; versions that do not
    report them report nothing.
    """
    is_stopping: bool = False
    """Whether it closes what it leads, and must not become a leader again."""
    unreached_servers: tuple[int, ...] = ()
    """The servers that it cannot reach at their addresses."""
    unopened_shards: tuple[int, ...] = ()
    """The shards that it could not open and that no server has served since."""


class ShardStanding(Enum):
    """The state of a shard of a store."""

    SERVING = "serving"
    TAKING_OVER = "taking over"
    """Its next leader is opening it."""
    MOVING = "moving"
    """Its leader is closing it, so that another may lead it."""
    FREE = "free"
    """Nobody leads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """The state of one shard."""

    shard: int
    """The number, from 0 on."""
    leader: int | None
    """The server that leads it or takes it over; None if none does, or a server is alone."""
    token: int | None
    """The token of its leader; None as above."""
    state: ShardStanding = ShardStanding.SERVING
    wish: int | None = None
    """The server that an operator pinned it to; None if any may lead it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of a cluster, as the answering server knows it."""

    id: int | None
    """The id of the answering server; None if it is alone."""
    role: Role
    leader: int | None
    """The server that leads or is taking over; None if there is none."""
    token: int | None
    """The token of the leader, greater than those of all earlier leaders."""
    instances: Sequence[Instance] = ()
    by: ShardBy | None = None
    """The rule by which topics are in shards; None if the store has only one."""
    shards: Sequence[ShardState] = ()
    """The shards in order, if the store has several."""

    def with_shards(self, sharding: Sharding) -> "ClusterState":
        """Return the state with the shards of the store, all led by the leader."""
        shards = [
            ShardState(shard=shard, leader=self.leader, token=self.token)
            for shard in range(sharding.shards)
        ]
        return replace(self, by=sharding.by, shards=shards)


class Cluster(Protocol):
    """The cluster to which a server belongs."""

    async def state(self) -> ClusterState:
        """Return the state. Raises `Unavailable`."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Return findings about unreachable servers, in bounded time."""
        ...
