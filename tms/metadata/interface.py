"""The guarantees of every metadata store; `tests/contracts/metadata_store_contract.py` checks them.

1. A value has a version: 0 when created, one more with each put. `expected_version` is compared and
   the value written in one step; -1 expects that there is no value.
2. Parents need not be created: a path with others below it is listed among its parent's children,
   but has no value, and does not exist, until it is put itself. It disappears with its last
   descendant; in ZooKeeper up to a minute later, if that ended with a session.
3. Each change of the store has a revision, and revisions grow for as long as the store lives. So
   `created_revision` distinguishes a value that was deleted and created again.
4. Ephemeral values end with the session that created them. They have no children.
5. Observers are called in the event loop, in the order of the changes, with no polling. A change
   made while the connection was lost may never be reported: after `RECONNECTED` or
   `SESSION_REESTABLISHED` an observer must read again.
6. After `close` every call raises `MetadataClosed`.

A call that raises `MetadataUnavailable` may have been carried out, or may be until the session is
connected again, but never later: a late server does not overwrite newer values. Each session is
used from the event loop in which it was opened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

VALUE_BYTES_MAX = 1_000_000
"""The largest value: every kind of store accepts it with default settings."""

NEW = -1
"""The expected version of a value that must not exist."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The facts that a store has about a value."""

    path: str
    version: int
    created_ms: int
    """By the clock of the store, in milliseconds since 1970; 0 if it keeps no times (etcd)."""
    modified_ms: int
    created_revision: int
    """Grows with each value created in the store, so it can serve as a fencing token."""
    modified_revision: int
    is_ephemeral: bool
    created_by_self: bool
    """Whether this session created an ephemeral value; False for any other value."""


class Value(NamedTuple):
    """A value with its stat."""

    value: bytes
    stat: Stat


class Change(Enum):
    """A change of a path."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    CHILDREN_CHANGED = "children changed"
    """The names below it changed; reported after the change of the child itself.

    A store that is a server reports this for all ancestors of a created or deleted path, even if
    their names stay the same.
    """


class Notification(NamedTuple):
    """A change of one path."""

    change: Change
    path: str


class SessionEvent(Enum):
    """An event of a session. A lost connection is not a lost session."""

    CONNECTION_LOST = "connection lost"
    RECONNECTED = "reconnected"
    SESSION_LOST = "session lost"
    """The session's ephemeral values are gone, or soon will be."""
    SESSION_REESTABLISHED = "session re-established"
    """Reported after `RECONNECTED`, only if the session had been lost."""


Observer = Callable[[Notification], None]
SessionObserver = Callable[[SessionEvent], None]
Stop = Callable[[], None]
"""Ends an observation. Calling it again does nothing."""


class MetadataStore(Protocol):
    """A session with a store of versioned values."""

    @property
    def is_connected(self) -> bool:
        """Whether calls can succeed now, as far as the session knows."""
        ...

    @property
    def silent_ms(self) -> int:
        """The time since the store last answered, in ms: later changes may not be reported yet."""
        ...

    async def get(self, path: str) -> Value | None:
        """Return the value at `path`, None if there is none."""
        ...

    async def get_children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted; none if it is absent."""
        ...

    async def exists(self, path: str) -> bool:
        """Return whether `path` has a value."""
        ...

    async def put(
        self,
        path: str,
        value: bytes,
        expected_version: int | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Stat:
        """Create or replace the value at `path`, and return its stat.

        `ephemeral` applies to a value that this call creates; an existing one stays as it is.
        `sequential` appends digits that this store never used for the same path, so that the value
        is new; its path is in the stat. Raises `BadVersion`, `TooLarge`, and `InvalidRequest` for a
        path that is malformed, the root, or below an ephemeral value; `PathHasChildren` for an
        ephemeral value above others.
        """
        ...

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Delete the value at `path`. Raises `PathNotFound`, `BadVersion`, `PathHasChildren`."""
        ...

    async def delete_recursive(self, path: str) -> None:
        """Delete `path`, if it exists, and all paths below it, children first, not atomically."""
        ...

    def observe(self, observer: Observer, under: str = "/") -> Stop:
        """Call `observer` with each change at or below `under`, until stopped.

        Its errors are logged, and other observers are called all the same.
        """
        ...

    def observe_session(self, observer: SessionObserver) -> Stop:
        """Call `observer` with each event of this session, until stopped."""
        ...

    async def close(self) -> None:
        """End the session, and its ephemeral values with it. Closing twice is not an error."""
        ...
