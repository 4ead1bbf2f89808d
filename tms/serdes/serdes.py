"""The serdes of a registry's schemas, cached by id. Used only on one event loop.

An id always means the same schema, so the cache stays valid.
"""

from collections.abc import Callable

from cachetools import LRUCache

from tms.core.errors import SchemaRefused
from tms.core.services.schemas import AsyncSchemas, SchemaReference, SchemaVersion
from tms.core.values.schema_types import type_of
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Serde, UnusableSchema

KEPT_MAX = 1000
"""The most cached serdes; the least recently used is dropped first."""
_REFERENCES_MAX = 1000
_NOT_FOUND = (40401, 40402, 40403)
_INVALID = 42201
"""Also of a registered schema in another form, if something that it refers to was deleted."""


class Serdes:
    """Serdes of one registry."""

    def __init__(self, schemas: Callable[[], AsyncSchemas], kept_max: int = KEPT_MAX) -> None:
        """Read schemas from the registry that `schemas` returns."""
        self._schemas = schemas
        self._by_id: LRUCache[tuple[str, int], Serde] = LRUCache(kept_max)

    def cached(self, schema_id: int, subject: str = "") -> Serde | None:
        """Return the serde of a schema's id, if it is cached."""
        return self._by_id.get((_context(subject), schema_id))

    async def of_id(self, schema_id: int, subject: str = "") -> Serde:
        """Return the serde of a schema's id, in the context of a subject.

        Raises `UnusableSchema`, and as `AsyncSchemas.schema`.
        """
        cached = self.cached(schema_id, subject)
        if cached is not None:
            return cached
        version = await self._schemas().schema(schema_id, subject)
        return await self.of_version(version, subject)

    async def of_version(self, version: SchemaVersion, subject: str = "") -> Serde:
        """Return the serde of a version. Raises as `of_id`."""
        subject = subject or version.subject
        cached = self.cached(version.id, subject)
        if cached is None:
            cached = compiled(await self.source_of(version, subject))
            self._by_id[_context(subject), version.id] = cached
        return cached

    async def source_of(self, version: SchemaVersion, subject: str) -> SchemaSource:
        """Return a version with everything it refers to. Raises as `of_id`."""
        kind = type_of(version.schema_type)
        form, is_whole = kind.value_form, kind.is_form_whole
        if form and (version.references or not is_whole):
            try:
                version = await self._schemas().schema(version.id, subject, form=form)
            except SchemaRefused as refused:
                if refused.detail.get("error_code") != _INVALID:
                    raise
                raise UnusableSchema(str(refused.detail.get("reason"))) from None
        references: dict[str, str] = {}
        if not is_whole:
            await self._collect(version.references, form, references)
        return SchemaSource(kind.name, version.schema, tuple(references.items()))

    async def _collect(
        self, references: tuple[SchemaReference, ...], form: str, sources: dict[str, str]
    ) -> None:
        """Collect everything that references lead to, each after what it needs."""
        for reference in references:
            if reference.name in sources:
                continue
            if len(sources) >= _REFERENCES_MAX:
                raise UnusableSchema(f"it needs more than {_REFERENCES_MAX} others")
            try:
                version = await self._schemas().version(
                    reference.subject, reference.version, deleted=True, form=form
                )
            except SchemaRefused as refused:
                if refused.detail.get("error_code") not in _NOT_FOUND:
                    raise
                missing = f"{reference.subject} version {reference.version}"
                raise UnusableSchema(f"it refers to {missing}, which does not exist") from None
            await self._collect(version.references, form, sources)
            sources.setdefault(reference.name, version.schema)


def _context(subject: str) -> str:
    """Return the prefix of a subject's own name; empty for the default context."""
    return f":{subject[1:].partition(':')[0]}:" if subject.startswith(":.") else ""
