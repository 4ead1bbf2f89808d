"""The features of a store, each recorded when it is first used.

In a cluster a leader records one only if all registered servers know it. A server that registers
later and does not know it is refused by the store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tms.core.errors import StoreFormatOld
from tms.core.services.cluster import Instance
from tms.core.services.group_commit import BlockingCalls

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

Instances = Callable[[], Awaitable[Sequence[Instance]]]
"""Returns the servers that are registered."""


class StoreFeatures:
    """The features of one store. Used from the event loop's thread alone."""

    def __init__(
        self, tables: "StoreTables", threads: BlockingCalls, instances: Instances | None = None
    ) -> None:
        """Check `instances` before a feature is recorded; None if this server is alone."""
        self._tables = tables
        self._threads = threads
        self._instances = instances
        self._recorded: frozenset[str] = frozenset()

    async def use(self, feature: str) -> None:
        """Record a feature durably before it is used; later calls cost nothing.

        Raises `StoreFormatOld` if a registered server does not know it, `Unavailable`, and
        `OutcomeUnknown`, after which the call can be repeated.
        """
        if feature in self._recorded:
            return
        recorded = await self._threads.read(self._tables.features)
        if feature not in recorded:
            await self._check_all_know(feature)
            await self._threads.write(self._tables.add_feature, feature)
        self._recorded = recorded | {feature}

    async def _check_all_know(self, feature: str) -> None:
        if self._instances is None:
            return
        await asyncio.sleep(0)  # the rest of a taskless request runs in a task
        instances = await self._instances()
        without = [instance for instance in instances if feature not in instance.features]
        if without:
            raise StoreFormatOld(
                feature=feature, servers=[f"{each.id} {each.address}" for each in without]
            )
