"""The settings of namespaces in a metadata store, and the resulting rules, in memory.

Each declared namespace is a value at `/namespaces/NAME`: a JSON object of the settings that it has.

1. `rules` has all declared namespaces, so that a publish finds its namespace's rules, or none, by
   one lookup without I/O.
2. It is up to date when `open` returns. A change made here is in it when the call returns; one made
   elsewhere as soon as the store reports it, or, after a lost connection, when that is back. While
   the store is not reached, the last known rules apply.
3. The rules of a namespace are the same object for as long as they do not change.
4. Settings that cannot be decoded are logged, and reported to callers that read them; the last
   valid ones stay in force.
"""

import asyncio
from collections.abc import Collection, Sequence

import msgspec

from tms.core.errors import (
    InvalidRequest,
    NamespaceNotDeclared,
    NoMetadataStore,
    PathNotFound,
    TooLarge,
)
from tms.core.limits import Limits
from tms.core.values.namespaces import Namespace, NamespaceRules, NamespaceSettings, rules_of
from tms.core.values.topic import check_namespace
from tms.metadata.cache import CachedValue
from tms.metadata.interface import MetadataStore
from tms.metadata.live_values import LiveValues

ROOT = "/namespaces"


class SettingsCodec:
    """Settings of a namespace as JSON. Unknown names are ignored."""

    def encode(self, value: NamespaceSettings) -> bytes:
        """Return the JSON of the settings that are set."""
        return msgspec.json.encode(value.given())

    def decode(self, data: bytes) -> NamespaceSettings:
        """Return the settings in JSON. Raises `ValueError`."""
        try:
            return msgspec.json.decode(data, type=NamespaceSettings)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error


class NamespaceStore:
    """The namespaces of a metadata store (`tms.core.values.namespaces.AsyncNamespaces`)."""

    def __init__(self, store: MetadataStore, limits: Limits) -> None:
        """Keep them in `store`, which `close` closes; call `open` next."""
        self.rules: dict[str, NamespaceRules] = {}
        """The rules of the declared namespaces; do not change it."""
        self._limits = limits
        self._store = store
        self.metadata: MetadataStore | None = store
        """The store that has them; others may use it while this is open."""
        self._live = LiveValues(store, ROOT, SettingsCodec(), self._take)
        self._declaring = asyncio.Lock()

    async def open(self) -> None:
        """Read all declarations, and follow them from now on. Raises `MetadataUnavailable`."""
        await self._live.open()

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return [await self.namespace(name) for name in sorted(filter(_is_name, self._live.names))]

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace, declared or not."""
        return self._namespace_of(name, self._live.cached(check_namespace(name)))

    def _namespace_of(self, name: str, cached: CachedValue[NamespaceSettings] | None) -> Namespace:
        settings = NamespaceSettings() if cached is None else cached.value
        return Namespace(
            name=name,
            version=None if cached is None else cached.stat.version,
            settings=settings,
            rules=rules_of(settings, self._limits),
        )

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Give a namespace these settings and no others; they apply here when this returns.

        Raises `TooLarge` (namespace_limit_reached), and `OutcomeUnknown`.
        """
        check_namespace(name)
        async with self._declaring:
            if (
                name not in self._live.names
                and len(self._live.names) >= self._limits.namespaces_max
            ):
                raise TooLarge(
                    "namespace_limit_reached",
                    namespace=name,
                    namespaces_max=self._limits.namespaces_max,
                )
            stat = await self._live.put(name, settings)
        return self._namespace_of(name, CachedValue(settings, stat))

    async def delete(self, name: str) -> None:
        """Delete a namespace's settings."""
        try:
            await self._live.delete(check_namespace(name))
        except PathNotFound:
            raise NamespaceNotDeclared(namespace=name) from None

    async def close(self) -> None:
        """Stop following the store, and close it."""
        await self._live.close()
        await self._store.close()

    def _take(self, names: Collection[str]) -> None:
        """Bring the rules of some namespaces up to date."""
        for name in filter(_is_name, names):
            settings = self._live.values.get(name)
            if settings is None:
                self.rules.pop(name, None)
                continue
            rules = rules_of(settings, self._limits)
            if self.rules.get(name) != rules:
                self.rules[name] = rules


class UndeclaredNamespaces:
    """The namespaces of a server without a metadata store: its limits apply to all."""

    def __init__(self, limits: Limits) -> None:
        self.rules: dict[str, NamespaceRules] = {}
        """None."""
        self.metadata: MetadataStore | None = None
        self._limits = limits

    async def namespaces(self) -> Sequence[Namespace]:
        """Return none."""
        return []

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace, which is not declared."""
        check_namespace(name)
        settings = NamespaceSettings()
        rules = rules_of(settings, self._limits)
        return Namespace(name=name, version=None, settings=settings, rules=rules)

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:  # noqa: ARG002
        """Raise `NoMetadataStore`."""
        raise NoMetadataStore(namespace=check_namespace(name))

    async def delete(self, name: str) -> None:
        """Raise `NoMetadataStore`."""
        raise NoMetadataStore(namespace=check_namespace(name))

    async def close(self) -> None:
        """Do nothing."""


def _is_name(text: str) -> bool:
    """Whether this name below `ROOT` may be a namespace's, not put there by mistake."""
    try:
        check_namespace(text)
    except InvalidRequest:
        return False
    return True
