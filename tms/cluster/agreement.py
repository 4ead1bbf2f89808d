"""Whether the store of a cluster has shards: all its servers must take it for the same.

The store says it, once it is reached. The first server that reaches a store with shards records it
in the metadata store, so that a server that does not reach the store knows it too.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tms.cluster.holding import LEASE
from tms.cluster.instances import ROOT
from tms.core.errors import BadVersion, StoreFormatUnknown, TmsError, ValueUnreadable
from tms.core.shards import ShardBy, Sharding
from tms.metadata.cache import JsonCodec
from tms.metadata.interface import NEW, MetadataStore

_PATH = f"{ROOT}/sharding"
_RETRY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The way in which a store is divided, as the metadata store has it, in JSON."""

    store: str
    by: ShardBy
    shards: int


_codec = JsonCodec(_Record)


async def agreed_sharding(
    metadata: MetadataStore, of_store: str, read: Callable[[], Sharding | None]
) -> Sharding | None:
    """Return how the store is divided that servers call `of_store`; None if it has one shard.

    `read` asks the store itself; it blocks, for a bounded time. If the store is not reached, and
    nobody has recorded anything, it is asked again until it is. Raises `Unavailable`, `ValueError`
    for another's cluster, and `StoreFormatUnknown` for what is not a store.
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
            _log.warning("this server waits until it knows whether the store has shards: %s", error)
            await asyncio.sleep(_RETRY_S)
            continue
        if sharding is not None:
            record = _Record(store=of_store, by=sharding.by, shards=sharding.shards)
            with suppress(BadVersion):  # another server was quicker
                await metadata.put(_PATH, _codec.encode(record), NEW)
        return sharding


async def _recorded(metadata: MetadataStore) -> _Record | None:
    found = await metadata.get(_PATH)
    if found is None:
        return None
    try:
        return _codec.decode(found.value)
    except ValueError as error:
        raise ValueUnreadable(path=_PATH, reason=str(error)) from error
