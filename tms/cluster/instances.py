"""The servers of a cluster: each is an ephemeral value, which ends with its session."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tms.coordination import CoordinationService
from tms.core.errors import TmsError, ValueUnreadable
from tms.core.services.cluster import Instance
from tms.metadata.cache import JsonCodec
from tms.metadata.following import RETRY_S, Following
from tms.metadata.interface import MetadataStore, SessionEvent

ROOT = "/cluster"
_INSTANCES = f"{ROOT}/instances"
_COUNTER = f"{ROOT}/ids"

_codec = JsonCodec(Instance)


async def next_instance_id(store: MetadataStore) -> int:
    """Return a number that no instance had before. Raises `Unavailable`."""
    service = CoordinationService(store)
    try:
        return await service.next_counter_value(_COUNTER)
    finally:
        await service.close()


async def instances_of(store: MetadataStore) -> Sequence[Instance]:
    """Return the registered instances, in the order of their ids. Raises `Unavailable`."""
    instances = []
    for name in await store.get_children(_INSTANCES):
        path = f"{_INSTANCES}/{name}"
        value = await store.get(path)
        if value is not None:
            try:
                instances.append(_codec.decode(value.value))
            except ValueError as error:
                raise ValueUnreadable(path=path, reason=str(error)) from error
    return sorted(instances, key=lambda instance: instance.id)


async def is_last(store: MetadataStore, own: int, within_s: float) -> bool:
    """Return whether all instances except `own` are stopping; False if unknown."""
    try:
        async with asyncio.timeout(within_s):
            instances = await instances_of(store)
            return all(instance.id == own or instance.is_stopping for instance in instances)
    except Exception:  # whatever it is, the services must be closed
        return False


class Registration:
    """One server's entry, put again with each new session."""

    def __init__(self, store: MetadataStore, instance: Instance) -> None:
        """Register `instance` from `open` on."""
        self._store = store
        self.instance = instance
        self._path = f"{_INSTANCES}/{instance.id}"
        self._is_new_session = False
        self._following = Following(
            store, None, "registering in the cluster", self._put, happen=self._happen
        )

    async def open(self) -> None:
        """Register. Raises `Unavailable`."""
        await self._following.open()

    async def _put(self) -> None:
        if self._is_new_session:
            # The lost session's entry would be deleted when that session ends.
            await self._store.delete_recursive(self._path)
            self._is_new_session = False
        await self._store.put(self._path, _codec.encode(self.instance), ephemeral=True)

    def _happen(self, event: SessionEvent) -> bool:
        is_new = event is SessionEvent.SESSION_REESTABLISHED
        self._is_new_session |= is_new
        return is_new

    def report_reached(self, since_ms: int | None) -> None:
        """Publish in the entry since when this server reaches the store; None if it does not."""
        if self.instance.is_stopping:
            return
        self.instance = replace(self.instance, reaches_store_since_ms=since_ms)
        self._following.wake()

    def report_unreached(self, servers: Sequence[int]) -> None:
        """Make the entry say which servers this one does not reach."""
        if self.instance.unreached_servers != tuple(servers):
            self.instance = replace(self.instance, unreached_servers=tuple(servers))
            self._following.wake()

    def report_unopened(self, shards: Sequence[int]) -> None:
        """Make the entry say which shards this server could not open."""
        if self.instance.unopened_shards != tuple(shards):
            self.instance = replace(self.instance, unopened_shards=tuple(shards))
            self._following.wake()

    def renew(self, since_ms: int) -> None:
        """Make the entry say that this server registered again at a time, in ms since 1970."""
        self.instance = replace(self.instance, since_ms=since_ms)
        self._following.wake()

    async def retire(self) -> None:
        """Make the entry say that this server should no longer lead anything.

        When this returns, the others can see that, unless the metadata store is away.
        """
        if not self.instance.is_stopping:
            self.instance = replace(self.instance, is_stopping=True, reaches_store_since_ms=None)
            with suppress(TmsError, TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._put()

    async def withdraw(self) -> None:
        """Stop registering, and delete the entry, unless the metadata store is away."""
        await self.close()
        with suppress(TmsError):
            await self._store.delete_recursive(self._path)

    async def close(self) -> None:
        """Stop registering. The entry ends with the session."""
        await self._following.close()
