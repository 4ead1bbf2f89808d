"""A session with a metadata store of this process: the MetadataStore over a host."""

from collections.abc import Callable
from typing import Protocol

from tms.core.errors import MetadataClosed, MetadataUnavailable, PathNotFound
from tms.core.runtime.clock import Clock
from tms.metadata.interface import (
    Notification,
    Observer,
    SessionEvent,
    SessionObserver,
    Stat,
    Stop,
    Value,
)
from tms.metadata.observers import Observers
from tms.metadata.paths import check_path, check_value_path, is_at_or_below
from tms.metadata.tree import Put, Tree, TreeEdit, stat_of


class Host(Protocol):
    """The calls of a session to its host."""

    tree: Tree
    clock: Clock

    async def change(self, decide: Callable[[Tree], list[TreeEdit]]) -> list[TreeEdit]:
        """Carry out the edits of `decide`, and return them."""
        ...

    async def end(self, session: "LocalSession") -> None:
        """End a session for good, and its ephemeral values."""
        ...


class LocalSession:
    """A MetadataStore in this process. `tms.metadata.host` and `tms.metadata.memory` open it."""

    def __init__(self, host: Host, number: int) -> None:
        self.number = number
        self._host = host
        self._is_connected = True
        self._lost_at_ms = 0
        self._was_lost = False
        self._closed = False
        self._observers: Observers[Notification] = Observers()
        self._session_observers: Observers[SessionEvent] = Observers()

    @property
    def is_connected(self) -> bool:
        """Whether calls can succeed now."""
        return self._is_connected and not self._closed

    @property
    def silent_ms(self) -> int:
        """The time since the store last answered, in ms."""
        return 0 if self._is_connected else self._host.clock.steady_ms() - self._lost_at_ms

    def _check_usable(self) -> None:
        if self._closed:
            raise MetadataClosed
        if not self._is_connected:
            raise MetadataUnavailable(reason="the connection is lost")

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`, None if there is none."""
        self._check_usable()
        check_path(path)
        return self._host.tree.get(path, self.number)

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted; none if it is absent."""
        self._check_usable()
        check_path(path)
        return self._host.tree.children(path)

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
        put = Put(path, value, expected_version, ephemeral, sequential)

        def decide(tree: Tree) -> list[TreeEdit]:
            self._check_usable()
            return [tree.decide_put(put, self.number, self._host.clock.now_ms())]

        (edit,) = await self._host.change(decide)
        assert edit.node is not None
        return stat_of(edit.path, edit.node, self.number)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Delete the value at `path`, as `MetadataStore.delete` does."""
        self._check_usable()
        check_value_path(path)

        def decide(tree: Tree) -> list[TreeEdit]:
            # A session that has ended must not delete another one's value.
            self._check_usable()
            return [tree.decide_delete(path, expected_version)]

        await self._host.change(decide)

    async def delete_recursive(self, path: str) -> None:
        """Delete `path` and all below it."""
        self._check_usable()
        check_path(path)
        for below in [*self._host.tree.below(path), path]:
            if self._host.tree.get(below, self.number) is not None:
                try:
                    await self.delete(below)
                except PathNotFound:
                    continue  # another writer was faster

    def observe(self, observer: Observer, under: str = "/") -> Stop:
        """Call `observer` with each change at or below `under`."""
        check_path(under)

        def if_below(notification: Notification) -> None:
            if is_at_or_below(notification.path, under):
                observer(notification)

        return self._observers.add(if_below)

    def observe_session(self, observer: SessionObserver) -> Stop:
        """Call `observer` with each event of this session."""
        return self._session_observers.add(observer)

    def hear(self, notification: Notification) -> None:
        """Report a change to the observers, if this session would get it."""
        if self.is_connected:
            self._observers.notify(notification)

    def happen(self, event: SessionEvent) -> None:
        """Apply an event to this session, and report it."""
        if event is SessionEvent.CONNECTION_LOST:
            self._is_connected, self._lost_at_ms = False, self._host.clock.steady_ms()
        elif event is SessionEvent.SESSION_LOST:
            self._was_lost = True
        elif event is SessionEvent.RECONNECTED:
            self._is_connected = True
        self._session_observers.notify(event)
        if event is SessionEvent.RECONNECTED and self._was_lost:
            self._was_lost = False
            self._session_observers.notify(SessionEvent.SESSION_REESTABLISHED)

    async def close(self) -> None:
        """End the session, and its ephemeral values with it."""
        if self._closed:
            return
        self._closed = True
        self._observers.clear()
        self._session_observers.clear()
        await self._host.end(self)
