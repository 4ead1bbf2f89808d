"""The shards of a store: complete stores, each with a part of the topics and transactions.

A topic's name determines its shard, and a write pointer that of its transaction. So the number of
shards and the rule are enough to route a request. Number and rule are recorded when a store is
made, and never change.

DO NOT CHANGE what these functions return: they decide where rows are stored (`docs/formats.md`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from tms.core.errors import InvalidRequest
from tms.core.values.topic import TopicId, check_namespace

SHARDS_MAX = 64


class ShardBy(StrEnum):
    """The rule that assigns topics to shards."""

    NAMESPACE = "namespace"
    """All topics of a namespace are in one shard."""
    TOPIC = "topic"
    """A topic's shard follows from the part of its name before `--`."""


class OwnIds(NamedTuple):
    """The write pointers of a shard's transactions: those with its residue."""

    shard: int = 0
    shards: int = 1

    def first_from(self, write_pointer: int) -> int:
        """Return the shard's first pointer that is not below `write_pointer`."""
        return write_pointer + (self.shard - write_pointer) % self.shards

    def has(self, write_pointer: int) -> bool:
        """Whether a write pointer belongs to the shard."""
        return write_pointer % self.shards == self.shard


def check_shard(shard: int, shards: int) -> int:
    """Return a shard's number. Raises `InvalidRequest` (invalid_query) if there is none."""
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
        """Refuse a number that stores cannot have."""
        if not 1 <= self.shards <= SHARDS_MAX:
            raise ValueError(self.shards)

    def shard_of(self, topic: TopicId) -> int:
        """Return the shard of a topic."""
        if self.by is ShardBy.NAMESPACE:
            return self._of(topic.namespace)
        return self._of(f"{topic.namespace}:{topic.name.partition('--')[0]}:")

    def home(self, namespace: str, topic: str | None = None) -> int:
        """Return the shard of a transaction: a topic's, or by default the namespace's own.

        Raises `InvalidRequest` (invalid_namespace_name, invalid_topic_name).
        """
        if topic is not None:
            return self.shard_of(TopicId(namespace, topic))
        return self._of(check_namespace(namespace))

    def shard_of_transaction(self, write_pointer: int) -> int:
        """Return the shard of the transaction with a write pointer."""
        return write_pointer % self.shards

    def _of(self, name: str) -> int:
        return crc32(name.encode()) % self.shards

    def __str__(self) -> str:
        """Return it for people: "16 shards by namespace"."""
        return f"{self.shards} shards by {self.by}"


class OneShard(NamedTuple):
    """One of the shards of a store, as the store records it."""

    shard: int
    """The number, from 0 on."""
    sharding: Sharding

    def __str__(self) -> str:
        """Return it for people: "shard 3 of 16 shards by namespace"."""
        return f"shard {self.shard} of {self.sharding}"
