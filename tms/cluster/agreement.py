"""Agreement of a cluster's servers: whether their store has shards, and some settings.

1. The store itself records whether it has shards. The first server that reaches a store with shards
   also records that in the metadata store, for servers that do not reach the store.
2. Each server registers with its settings, and then compares them with those of all others. If two
   differ in a setting that would make them contradict each other, the later server is refused. If
   they start at the same moment, both may be.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from tms.cluster.holding import LEASE
from tms.cluster.instances import ROOT
from tms.core.errors import BadVersion, StoreFormatUnknown, TmsError, ValueUnreadable
from tms.core.services.cluster import Instance
from tms.core.values.shards import ShardBy, Sharding
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import NEW, MetadataStore

REFUSED = ("transactions", "registry_mode", "transaction_lifetime_s_max")
"""The settings whose difference would make servers contradict each other: who decides about
transactions and schemas, and which write pointers are too old.
"""
COMPARED = (
    "message_bytes_max",
    "request_bytes_max",
    "request_messages_max",
    "ttl_s_default",
    "transaction_timeout_s_default",
    "transaction_timeout_s_max",
    "topics_max",
)
"""The limits whose difference a caller may notice, depending on the leader."""

_PATH = f"{ROOT}/sharding"
_RETRY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The sharding of a store as recorded in the metadata store, in JSON."""

    store: str
    by: ShardBy
    shards: int


_codec = JsonCodec(_Record)


def check_agreement(own: Instance, instances: Iterable[Instance]) -> None:
    """Compare the settings of a server with those of others, and log which limits differ.

    Raises `ValueError` if it cannot take part together with one of them.
    """
    for other in instances:
        shared = other.agreed.keys() & own.agreed.keys()
        differing = sorted(each for each in shared if other.agreed[each] != own.agreed[each])
        if not differing or other.id == own.id or other.is_stopping:
            continue
        theirs = ", ".join(f"{each}={other.agreed[each]!r}" for each in differing)
        ours = ", ".join(f"{each}={own.agreed[each]!r}" for each in differing)
        if any(each in REFUSED for each in differing):
            raise ValueError(
                f"server {other.id} of the cluster, at {other.address}, has {theirs}, and this one "
                f"{ours}: give all servers the same"
            )
        _log.warning(
            "server %d at %s has %s, but this one has %s", other.id, other.address, theirs, ours
        )


async def agreed_sharding(
    metadata: MetadataStore, of_store: str, read: Callable[[], Sharding | None]
) -> Sharding | None:
    """Return the sharding of the store that servers call `of_store`; None if it has one shard.

    `read` reads the store itself; it blocks, for a bounded time. If the store is not reached, and
    nothing is recorded, it is called again until it succeeds. Raises `Unavailable`, `ValueError`
    for the cluster of another store, and `StoreFormatUnknown` if there is no store.
    """
    recorded = await _recorded(metadata)
    if recorded is not None:
        if recorded.store != of_store:
            raise ValueError(
                f"the cluster is on the store {recorded.store!r}, not on {of_store!r}: give "
                "each store a metadata path of its own"
            )
        return Sharding(recorded.shards, recorded.by)
    while True:
        try:
            sharding = await asyncio.to_thread(read)
        except StoreFormatUnknown:
            if await metadata.get(LEASE) is not None:
                return None
            raise
        except TmsError as error:
            if await metadata.get(LEASE) is not None:
                return None
            _log.warning("waiting to learn whether the store has shards: %s", error)
            await asyncio.sleep(_RETRY_S)
            continue
        if sharding is not None:
            record = _Record(store=of_store, by=sharding.by, shards=sharding.shards)
            with suppress(BadVersion):  # another server was faster
                await metadata.put(_PATH, _codec.encode(record), NEW)
        return sharding


async def _recorded(metadata: MetadataStore) -> _Record | None:
    value = await metadata.get(_PATH)
    if value is None:
        return None
    try:
        return _codec.decode(value.value)
    except ValueError as error:
        raise ValueUnreadable(path=_PATH, reason=str(error)) from error
