"""Ids in batches, where a metadata store counts them: each batch is one master's alone."""

from urllib.parse import quote

from tms.core.errors import BadVersion
from tms.metadata.interface import NEW, MetadataStore
from tms.registry.state.subjects import DEFAULT_CONTEXT

AT_ONCE = 20
"""How many ids a batch has."""


class IdsWanted(Exception):
    """Raised by who decides, when the ids of a batch are used up."""

    def __init__(self, context: str, above: int) -> None:
        """Want ids of a context, from `above` on."""
        super().__init__(context)
        self.context = context
        self.above = above


class StoreIds:
    """Gives ids in batches.

    The upper bound of what was given is a value of a metadata store, for each context.
    """

    def __init__(self, store: MetadataStore, namespace: str, at_once: int = AT_ONCE) -> None:
        """Count below `namespace`, a path; give `at_once` ids in a batch."""
        self._store = store
        self._path = f"{namespace}/schema_id_counter"
        self._at_once = at_once

    async def batch(self, context: str, above: int) -> range:
        """Return ids that nobody else gets, from `above` on. Raises `TmsError`."""
        name = "default" if context == DEFAULT_CONTEXT else quote(context, safe=".")
        path = f"{self._path}/{name}"
        while True:
            found = await self._store.get(path)
            bound = 0 if found is None else int(found.value)
            ids = range(max(bound, above), max(bound, above) + self._at_once)
            version = NEW if found is None else found.stat.version
            try:
                await self._store.put(path, str(ids.stop).encode(), version)
            except BadVersion:
                continue
            return ids
