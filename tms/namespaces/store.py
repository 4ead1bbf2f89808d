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
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from tms.core.errors import (
    InvalidRequest,
    MetadataUnavailable,
    NamespaceNotDeclared,
    NoMetadataStore,
    OutcomeUnknown,
    PathNotFound,
    TooLarge,
    Unavailable,
    ValueUnreadable,
)
from tms.core.limits import Limits
from tms.core.namespaces import Namespace, NamespaceRules, NamespaceSettings, rules_of
from tms.core.supervision import supervised
from tms.core.topic import check_namespace
from tms.metadata.cache import CachedValue, MetadataCache
from tms.metadata.interface import Change, MetadataStore, Notification, SessionEvent

ROOT = "/namespaces"
RETRY_S = 1.0
"""After which what could not be read is read again."""
_READS_AT_ONCE = 100

_log = logging.getLogger(__name__)


class _Stored(msgspec.Struct, omit_defaults=True):
    """Settings as they are kept. Names that this version does not know are passed over."""

    ttl_s_default: int | None = None
    ttl_s_max: int | None = None
    message_bytes_max: int | None = None
    request_bytes_max: int | None = None
    publish_messages_per_s: int | None = None
    publish_bytes_per_s: int | None = None


class SettingsCodec:
    """Settings of a namespace as JSON."""

    def encode(self, value: NamespaceSettings) -> bytes:
        """Return the JSON of what is set."""
        return msgspec.json.encode(value.given())

    def decode(self, data: bytes) -> NamespaceSettings:
        """Return the settings that JSON says. Raises `ValueError`."""
        stored = msgspec.json.decode(data, type=_Stored)
        try:
            return NamespaceSettings(**msgspec.structs.asdict(stored))
        except InvalidRequest as error:
            raise ValueError(str(error)) from error


class NamespaceStore:
    """The namespaces of a metadata store (`tms.core.namespaces.AsyncNamespaces`)."""

    def __init__(self, store: MetadataStore, limits: Limits) -> None:
        """Keep them in `store`, which `close` closes; `open` first."""
        self.rules: dict[str, NamespaceRules] = {}
        """The rules of the declared namespaces; do not change it."""
        self._limits = limits
        self._store = store
        self.metadata: MetadataStore | None = store
        """Where they are kept; others may keep more there while this is open."""
        self._cache = MetadataCache(store, SettingsCodec(), under=ROOT)
        # Behind the cache's own observers: when these are told, it has forgotten what changed.
        self._stops = [store.observe(self._hear, ROOT), store.observe_session(self._happen)]
        self._turn = asyncio.Lock()
        self._declaring = asyncio.Lock()
        self._changed: set[str] = set()
        self._all_changed = False
        self._has_news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read all that is declared, and follow it from now on. Raises `MetadataUnavailable`."""
        await self._read_all()
        self._following = supervised("following namespaces in the metadata store", self._follow)

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        names = filter(_is_name, await self._cache.get_children(ROOT))
        found = [(name, await self._cache.get_with_stat(_path(name))) for name in names]
        return [self._told(name, settings) for name, settings in found if settings is not None]

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace; one that is not declared too."""
        return self._told(name, await self._cache.get_with_stat(_path(name)))

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
        path = _path(name)
        async with self._declaring:
            await self._check_room(name)
            with self._unknown_once_sent():
                stat = await self._cache.put(path, settings)
                await self._read([name])
        return self._told(name, CachedValue(settings, stat))

    async def _check_room(self, name: str) -> None:
        declared = await self._cache.get_children(ROOT)
        if name not in declared and len(declared) >= self._limits.namespaces_max:
            raise TooLarge(
                "namespace_limit_reached",
                namespace=name,
                namespaces_max=self._limits.namespaces_max,
            )

    async def delete(self, name: str) -> None:
        """Take a namespace's settings away."""
        with self._unknown_once_sent():
            try:
                await self._cache.delete(_path(name))
            except PathNotFound:
                raise NamespaceNotDeclared(namespace=name) from None
            await self._read([name])

    @contextmanager
    def _unknown_once_sent(self) -> Iterator[None]:
        """Raise `OutcomeUnknown` if the store is lost after it was asked for a change."""
        is_sent = self._store.is_connected
        try:
            yield
        except MetadataUnavailable as error:
            if not is_sent:
                raise
            raise OutcomeUnknown(**error.detail) from error

    async def close(self) -> None:
        """Follow the store no more, and close it."""
        for stop in self._stops:
            stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._cache.close()
        await self._store.close()

    def _hear(self, notification: Notification) -> None:
        change, path = notification
        if change is not Change.CHILDREN_CHANGED:
            self._changed.add(path.removeprefix(f"{ROOT}/"))
            self._has_news.set()

    def _happen(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self._all_changed = True
            self._has_news.set()

    async def _follow(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            names, self._changed = self._changed, set()
            every, self._all_changed = self._all_changed, False
            try:
                await (self._read_all() if every else self._read(names))
            except BaseException as error:
                self._changed |= names
                self._all_changed |= every
                self._has_news.set()
                if not isinstance(error, Unavailable):
                    raise
                _log.warning("namespaces cannot be read: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _read_all(self) -> None:
        await self._read({*await self._cache.get_children(ROOT), *self.rules})

    async def _read(self, names: Iterable[str]) -> None:
        """Bring the rules of some namespaces up to date."""
        left = sorted(filter(_is_name, names))
        # One at a time: what was read earlier never replaces what was read later.
        async with self._turn:
            while left:
                some, left = left[:_READS_AT_ONCE], left[_READS_AT_ONCE:]
                await asyncio.gather(*map(self._read_one, some))

    async def _read_one(self, name: str) -> None:
        try:
            settings = await self._cache.get(f"{ROOT}/{name}")
        except ValueUnreadable as error:
            _log.error("namespace %s keeps its last valid settings: %s", name, error)
            return
        if settings is None:
            self.rules.pop(name, None)
            return
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


def _path(name: str) -> str:
    return f"{ROOT}/{check_namespace(name)}"
