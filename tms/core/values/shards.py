"""The shards of a store: whole stores, each with a part of the topics and transactions.

Where a topic is follows from its name alone, and a write pointer says where its transaction is. So
everybody who knows the number of shards and the rule knows where a request goes. Number and rule
are recorded when a store is made, and never change.

DO NOT CHANGE what these functions return: rows are stored where they say (`docs/formats.md`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from tms.core.errors import InvalidRequest
from tms.core.values.topic import TopicId, check_namespace

SHARDS_MAX = 64


class ShardBy(StrEnum):
    """The rule that says in which shard a topic is."""

    NAMESPACE = "namespace"
    """All topics of a namespace are in one shard."""
    TOPIC = "topic"
    """A topic is where its name says, together with those named like it and `--`."""


class OwnIds(NamedTuple):
    """The write pointers that the transactions of a shard may have: those with its residue."""

    shard: int = 0
    shards: int = 1

    def first_from(self, write_pointer: int) -> int:
        """Return the least own one that is not less than a number."""
        return write_pointer + (self.shard - write_pointer) % self.shards

    def has(self, write_pointer: int) -> bool:
        """Whether a write pointer is an own one."""
        return write_pointer % self.shards == self.shard


def check_shard(shard: int, shards: int) -> int:
    """Return the number of a shard. Raises `InvalidRequest` (invalid_query) if there is none."""
    if not 0 <= shard < shards:
        raise InvalidRequest(
            "invalid_query", name="shard", given=shard, expected=f"0 to {shards - 1}"
        )
    return shard


EVERY_ID = OwnIds()
"""The write pointers of a store with one shard."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """The number of shards of a store, 1 to `SHARDS_MAX`, and the rule."""

    shards: int
    by: ShardBy = ShardBy.NAMESPACE

    def __post_init__(self) -> None:
        """Refuse a number that no store has."""
        if not 1 <= self.shards <= SHARDS_MAX:
            raise ValueError(self.shards)

    def shard_of(self, topic: TopicId) -> int:
        """Return the shard of a topic."""
        if self.by is ShardBy.NAMESPACE:
            return self._of(topic.namespace)
        return self._of(f"{topic.namespace}:{topic.name.partition('--')[0]}:")

    def home(self, namespace: str, topic: str | None = None) -> int:
        """Return the shard of a transaction: that of a topic, or else the namespace's own.

        Raises `InvalidRequest` (invalid_namespace_name, invalid_topic_name).
        """
        if topic is not None:
            return self.shard_of(TopicId(namespace, topic))
        return self._of(check_namespace(namespace))

    def shard_of_transaction(self, write_pointer: int) -> int:
        """Return the shard of the transaction that has a write pointer."""
        return write_pointer % self.shards

    def _of(self, name: str) -> int:
        return crc32(name.encode()) % self.shards

    def __str__(self) -> str:
        """Return it for people: "16 shards by namespace"."""
        return f"{self.shards} shards by {self.by}"


class OneShard(NamedTuple):
    """One of the shards of a store, as the store says it is."""

    shard: int
    """Its number, from 0 on."""
    sharding: Sharding

    def __str__(self) -> str:
        """Return it for people: "shard 3 of 16 shards by namespace"."""
        return f"shard {self.shard} of {self.sharding}"
