"""A session with a metadata store that is a server of its own: the part common to all kinds.

`MetadataServer` is the part that differs. This one checks paths and values, fails calls while there
is no connection, watches the session, and notifies observers. A call that is not answered within
the session timeout raises `MetadataUnavailable`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Protocol, TypeVar

from tms.core.errors import MetadataClosed, MetadataUnavailable, TmsError, TooLarge
from tms.core.runtime.clock import Clock, SystemClock
from tms.core.runtime.supervision import supervised
from tms.metadata.interface import (
    VALUE_BYTES_MAX,
    Change,
    Notification,
    Observer,
    SessionEvent,
    SessionObserver,
    Stat,
    Stop,
    Value,
)
from tms.metadata.observers import Observers
from tms.metadata.paths import ROOT, ancestors, check_path, check_value_path, is_at_or_below
from tms.metadata.session_watch import LOOKS, SessionWatch
from tms.metadata.tree import Put

T = TypeVar("T")
LOOK_S_MAX = 1.0
"""The longest interval between checks of a server, so that silence is noticed soon."""

_log = logging.getLogger(__name__)


class MetadataServer(Protocol):
    """A session with a server. Paths are checked; errors are those of `MetadataStore`."""

    async def open(self) -> None:
        """Return when the store can be used. Raises `MetadataUnavailable`."""
        ...

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`, which is not the root."""
        ...

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted."""
        ...

    async def put(self, put: Put) -> Stat:
        """Carry out a put, as `MetadataStore.put` does."""
        ...

    async def delete(self, path: str, expected_version: int | None) -> None:
        """Delete a value, as `MetadataStore.delete` does."""
        ...

    async def delete_recursive(self, path: str) -> None:
        """Delete `path` and all below it."""
        ...

    async def touch(self) -> None:
        """Let the server answer in the session, which keeps it alive."""
        ...

    async def close(self) -> None:
        """End the session, if the server is reached."""
        ...


class Link:
    """Receives a session's reports about its connection and changes. Created before the server."""

    def __init__(self, timeout_ms: float, clock: Clock | None = None) -> None:
        """Watch a session that ends after `timeout_ms` of silence."""
        self.clock: Clock = clock or SystemClock()
        self.watch = SessionWatch(timeout_ms, self.clock.steady_ms())
        self.observers: Observers[Notification] = Observers()
        self.session_observers: Observers[SessionEvent] = Observers()

    def heard(self, sent_ms: float) -> None:
        """Record that a request sent at `sent_ms` was answered."""
        self._tell(self.watch.heard(sent_ms, self.clock.steady_ms()))

    def linked(self, sent_ms: float) -> None:
        """Record that there is a connection on which changes are reported."""
        self._tell(self.watch.linked(sent_ms, self.clock.steady_ms()))

    def broken(self) -> None:
        """Record that the connection is lost."""
        self._tell(self.watch.broken())

    def expired(self) -> None:
        """Record that the server has ended the session."""
        self._tell(self.watch.expired())

    def look(self) -> None:
        """Record that time has passed."""
        self._tell(self.watch.look(self.clock.steady_ms()))

    def changed(self, change: Change, path: str) -> None:
        """Report a change of a value, and of its ancestors' children."""
        if not self.watch.is_connected:
            return  # observers must read again, but only within a session
        self.observers.notify(Notification(change, path))
        if change is not Change.MODIFIED:
            self.children_changed(ancestors(path))

    def children_changed(self, paths: Iterable[str]) -> None:
        """Report that the names below each path may have changed."""
        if self.watch.is_connected:
            for path in paths:
                self.observers.notify(Notification(Change.CHILDREN_CHANGED, path))

    def _tell(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            _log.info("session with the metadata store: %s", event.value)
            self.session_observers.notify(event)


class RemoteStore:
    """A MetadataStore on a server. `tms.metadata.opening` opens it."""

    def __init__(self, server: MetadataServer, link: Link) -> None:
        """Serve calls with `server`, which is connected and reports to `link`."""
        self._server = server
        self._link = link
        self._closed = False
        self._looking = supervised("keeping the session with the metadata store", self._look)

    @property
    def is_connected(self) -> bool:
        """Whether calls can succeed now, as far as the session knows."""
        return self._link.watch.is_connected and not self._closed

    @property
    def silent_ms(self) -> int:
        """The time since the store last answered, in ms."""
        return self._link.watch.silent_ms(self._link.clock.steady_ms())

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`, None if there is none."""
        self._check_usable()
        check_path(path)
        return None if path == ROOT else await self._answer(self._server.get(path))

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted; none if it is absent."""
        self._check_usable()
        check_path(path)
        return await self._answer(self._server.get_children(path))

    async def exists(self, path: str) -> bool:
        """Return whether `path` has a value."""
        return await self.get(path) is not None

    async def put(
        self,
        path: str,
        value: bytes,
        expected_version: int | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        """Create or replace the value at `path`, as `MetadataStore.put` does."""
        self._check_usable()
        check_value_path(path)
        if len(value) > VALUE_BYTES_MAX:
            raise TooLarge("value_too_large", value_bytes_max=VALUE_BYTES_MAX)
        put = Put(path, value, expected_version, ephemeral, sequential)
        return await self._answer(self._server.put(put))

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Delete the value at `path`, as `MetadataStore.delete` does."""
        self._check_usable()
        check_value_path(path)
        await self._answer(self._server.delete(path, expected_version))

    async def delete_recursive(self, path: str) -> None:
        """Delete `path` and all below it."""
        self._check_usable()
        check_path(path)
        await _with_own_errors(self._server.delete_recursive(path))  # its calls have limits

    def observe(self, observer: Observer, under: str = "/") -> Stop:
        """Call `observer` with each change at or below `under`."""
        check_path(under)

        def if_below(notification: Notification) -> None:
            if is_at_or_below(notification.path, under):
                observer(notification)

        return self._link.observers.add(if_below)

    def observe_session(self, observer: SessionObserver) -> Stop:
        """Call `observer` with each event of this session."""
        return self._link.session_observers.add(observer)

    def _check_usable(self) -> None:
        if self._closed:
            raise MetadataClosed
        self._link.look()  # a paused process notices a lost session here, before it calls
        if not self._link.watch.is_connected:
            raise MetadataUnavailable(reason="the connection is lost")

    async def _answer(self, call: Awaitable[T]) -> T:
        timeout_s = self._link.watch.timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await _with_own_errors(call)
        except TimeoutError:
            raise MetadataUnavailable(reason=f"no answer within {timeout_s} s") from None

    async def _look(self) -> None:
        """Keep the session alive, and notice failures."""
        touching: asyncio.Task[None] | None = None
        try:
            while True:
                await asyncio.sleep(min(LOOK_S_MAX, self._link.watch.timeout_ms / 1000 / LOOKS))
                self._link.look()
                if touching is None or touching.done():
                    touching = asyncio.ensure_future(self._touch())
        finally:
            if touching is not None:
                touching.cancel()

    async def _touch(self) -> None:
        sent_ms = self._link.clock.steady_ms()
        try:
            await self._answer(self._server.touch())
        except (MetadataUnavailable, MetadataClosed):
            return
        self._link.heard(sent_ms)

    async def close(self) -> None:
        """End the session, and its ephemeral values with it."""
        if self._closed:
            return
        self._closed = True
        self._looking.cancel()
        await asyncio.wait([self._looking])
        self._link.observers.clear()
        self._link.session_observers.clear()
        await self._server.close()


async def _with_own_errors(call: Awaitable[T]) -> T:
    """Return the result of a call. Errors of its transport become `MetadataUnavailable`."""
    try:
        return await call
    except TmsError:
        raise
    except Exception as error:
        _log.warning("a call to the metadata store failed", exc_info=error)
        raise MetadataUnavailable(reason=f"{type(error).__name__}: {error}") from error
