"""Ids in batches, counted by a metadata store: each batch belongs to one master."""

from urllib.parse import quote

from tms.core.errors import BadVersion
from tms.metadata.interface import NEW, MetadataStore
from tms.registry.state.subjects import DEFAULT_CONTEXT

AT_ONCE = 20
"""The size of a batch."""


class IdsWanted(Exception):
    """Raised by a decision when the ids of a batch are used up."""

    def __init__(self, context: str, above: int) -> None:
        """Request ids of a context, above `above`."""
        super().__init__(context)
        self.context = context
        self.above = above


class StoreIds:
    """Assigns ids in batches.

    For each context, a value in a metadata store has the upper bound of the assigned ids.
    """

    def __init__(self, store: MetadataStore, namespace: str, at_once: int = AT_ONCE) -> None:
        """Count below the path `namespace`, in batches of `at_once` ids."""
        self._store = store
        self._path = f"{namespace}/schema_id_counter"
        self._at_once = at_once

    async def batch(self, context: str, above: int) -> range:
        """Return ids above `above` that nobody else gets. Raises `TmsError`."""
        name = "default" if context == DEFAULT_CONTEXT else quote(context, safe=".")
        path = f"{self._path}/{name}"
        while True:
            stored = await self._store.get(path)
            bound = 0 if stored is None else int(stored.value)
            ids = range(max(bound, above), max(bound, above) + self._at_once)
            version = NEW if stored is None else stored.stat.version
            try:
                await self._store.put(path, str(ids.stop).encode(), version)
            except BadVersion:
                continue
            return ids
