"""The settings of namespaces in a metadata store, and what follows from them, at hand in memory.

Each declared namespace is a value at `/namespaces/NAME`: a JSON object of the settings that it has.

1. `rules` has all declared namespaces, so that a publish finds out by one lookup, with no I/O, that
   its namespace has none.
2. It is right when `open` returns. A change made here is in it when the call returns; one made
   elsewhere as soon as the store tells of it, or after a connection was lost, as it comes back.
   While the store is not reached, what was known last holds.
3. The rules of a namespace are the same object for as long as they do not change.
4. Settings that cannot be understood are told in the log and to whoever asks for them; what was
   known before them holds on.
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
    """Settings of a namespace as JSON. Names that this version does not know are passed over."""

    def encode(self, value: NamespaceSettings) -> bytes:
        """Return the JSON of what is set."""
        return msgspec.json.encode(value.given())

    def decode(self, data: bytes) -> NamespaceSettings:
        """Return the settings that JSON says. Raises `ValueError`."""
        try:
            return msgspec.json.decode(data, type=NamespaceSettings)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error


class NamespaceStore:
    """The namespaces of a metadata store (`tms.core.values.namespaces.AsyncNamespaces`)."""

    def __init__(self, store: MetadataStore, limits: Limits) -> None:
        """Keep them in `store`, which `close` closes; `open` first."""
        self.rules: dict[str, NamespaceRules] = {}
        """The rules of the declared namespaces; do not change it."""
        self._limits = limits
        self._store = store
        self.metadata: MetadataStore | None = store
        """Where they are kept; others may keep more there while this is open."""
        self._live = LiveValues(store, ROOT, SettingsCodec(), self._take)
        self._declaring = asyncio.Lock()

    async def open(self) -> None:
        """Read all that is declared, and follow it from now on. Raises `MetadataUnavailable`."""
        await self._live.open()

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        return [await self.namespace(name) for name in sorted(filter(_is_name, self._live.names))]

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace; one that is not declared too."""
        return self._told(name, self._live.found(check_namespace(name)))

    def _told(self, name: str, found: CachedValue[NamespaceSettings] | None) -> Namespace:
        settings = NamespaceSettings() if found is None else found.value
        return Namespace(
            name=name,
            version=None if found is None else found.stat.version,
            settings=settings,
            rules=rules_of(settings, self._limits),
        )

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Give a namespace these settings and no others; in force here when it returns.

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
        return self._told(name, CachedValue(settings, stat))

    async def delete(self, name: str) -> None:
        """Take a namespace's settings away."""
        try:
            await self._live.delete(check_namespace(name))
        except PathNotFound:
            raise NamespaceNotDeclared(namespace=name) from None

    async def close(self) -> None:
        """Follow the store no more, and close it."""
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
    """The namespaces of a server without a metadata store: all work by its limits."""

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
    """Whether a value at this place below `ROOT` is a namespace's, and not somebody's mistake."""
    try:
        check_namespace(text)
    except InvalidRequest:
        return False
    return True
