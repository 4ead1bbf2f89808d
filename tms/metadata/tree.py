"""The state of a metadata store in this process, and its rules. Pure: no clock, no I/O.

`Tree` decides what a call changes (`TreeEdit`), so that the edits can be made durable first. Then
it applies them, and returns the notifications for observers. Reads see what was applied.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sortedcontainers import SortedDict

from tms.core.errors import (
    BadVersion,
    InvalidRequest,
    PathHasChildren,
    PathNotFound,
    TooLarge,
)
from tms.metadata.interface import NEW, VALUE_BYTES_MAX, Change, Notification, Stat, Value
from tms.metadata.paths import ancestors, prefix_below

DIGITS = 10
"""The digits of sequential paths, as in ZooKeeper; greater numbers have more."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its metadata."""

    value: bytes
    version: int
    created_ms: int
    modified_ms: int
    created_revision: int
    modified_revision: int
    owner: int | None = None
    """The session with which an ephemeral value ends."""


class TreeEdit(NamedTuple):
    """The node that a change leaves at a path; None if none."""

    path: str
    node: Node | None
    revision: int


class Put(NamedTuple):
    """A put as a session requests it."""

    path: str
    value: bytes
    expected_version: int | None
    ephemeral: bool
    sequential: bool


class Tree:
    """Nodes by path."""

    def __init__(self, nodes: Iterable[tuple[str, Node]] = (), revision: int = 0) -> None:
        """Start with `nodes`, and with the last assigned revision."""
        self._nodes: SortedDict = SortedDict(nodes)
        self.revision = revision

    def get(self, path: str, session: int) -> Value | None:
        """Return the value at `path` as `session` sees it."""
        node = self._node(path)
        return None if node is None else Value(node.value, stat_of(path, node, session))

    def children(self, path: str) -> list[str]:
        """Return the names directly below `path`, sorted."""
        prefix = prefix_below(path)
        names: set[str] = set()
        at = self._first_from(prefix)
        while at is not None and at.startswith(prefix):
            name, _, rest = at[len(prefix) :].partition("/")
            names.add(name)
            # Skip all paths below a child: "0" is the character after "/".
            at = self._first_from(f"{prefix}{name}0" if rest else f"{at}\0")
        return sorted(names)

    def below(self, path: str) -> list[str]:
        """Return all paths below `path` that have values, each after its descendants."""
        prefix = prefix_below(path)
        paths = [p for p in self._nodes.irange(prefix) if p.startswith(prefix)]
        return paths[::-1]

    def owned_by(self, session: int) -> list[str]:
        """Return the paths of the ephemeral values of a session."""
        return [path for path, node in self._nodes.items() if node.owner == session]

    def nodes(self) -> Iterator[tuple[str, Node]]:
        """Yield all nodes, by path."""
        return iter(self._nodes.items())

    def decide_put(self, put: Put, session: int, now_ms: int) -> TreeEdit:
        """Return the edit of a put. Raises as `MetadataStore.put` does."""
        if len(put.value) > VALUE_BYTES_MAX:
            raise TooLarge("value_too_large", value_bytes_max=VALUE_BYTES_MAX)
        revision = self.revision + 1
        # A revision is assigned only once, even if its nodes are deleted.
        path = f"{put.path}{revision:0{DIGITS}d}" if put.sequential else put.path
        old = self._node(path)
        _check_version(path, old, put.expected_version)
        if old is not None:
            node = replace(
                old,
                value=put.value,
                version=old.version + 1,
                modified_ms=now_ms,
                modified_revision=revision,
            )
            return TreeEdit(path, node, revision)
        above = (self._node(ancestor) for ancestor in ancestors(path))
        if any(node is not None and node.owner is not None for node in above):
            raise InvalidRequest("invalid_path", path=path, reason="it is below an ephemeral value")
        if put.ephemeral and self.children(path):
            raise PathHasChildren(path=path)
        owner = session if put.ephemeral else None
        return TreeEdit(
            path, Node(put.value, 0, now_ms, now_ms, revision, revision, owner), revision
        )

    def decide_delete(self, path: str, expected_version: int | None) -> TreeEdit:
        """Return the edit of a delete. Raises as `MetadataStore.delete` does."""
        old = self._node(path)
        if old is None:
            raise PathNotFound(path=path)
        _check_version(path, old, expected_version)
        if self.children(path):
            raise PathHasChildren(path=path)
        return TreeEdit(path, None, self.revision + 1)

    def decide_delete_all(self, paths: Iterable[str]) -> list[TreeEdit]:
        """Return the edits that delete all of these."""
        return [TreeEdit(path, None, self.revision + n) for n, path in enumerate(paths, 1)]

    def apply(self, edits: Sequence[TreeEdit]) -> list[Notification]:
        """Carry out edits; return the notifications for observers, in order."""
        notifications: list[Notification] = []
        for edit in edits:
            notifications += self._apply(edit)
        return notifications

    def _apply(self, edit: TreeEdit) -> list[Notification]:
        path, node, revision = edit
        self.revision = max(self.revision, revision)
        was_there = path in self._nodes
        if node is not None and was_there:
            self._nodes[path] = node
            return [Notification(Change.MODIFIED, path)]
        if node is not None:
            changed = self._parents_of_new(path)
            self._nodes[path] = node
            change = Change.CREATED
        elif was_there:
            del self._nodes[path]
            changed = self._parents_of_new(path)
            change = Change.DELETED
        else:
            return []
        parents = [Notification(Change.CHILDREN_CHANGED, parent) for parent in changed]
        return [Notification(change, path), *parents]

    def _parents_of_new(self, path: str) -> list[str]:
        """Return the ancestors whose children change with `path`, which is absent."""
        changed: list[str] = []
        below = path
        for ancestor in ancestors(path):
            if below in self._nodes or self._has_below(below):
                break
            changed.append(ancestor)
            below = ancestor
        return changed

    def _has_below(self, path: str) -> bool:
        first = self._first_from(prefix_below(path))
        return first is not None and first.startswith(prefix_below(path))

    def _first_from(self, path: str) -> str | None:
        return next(self._nodes.irange(path), None)

    def _node(self, path: str) -> Node | None:
        node: Node | None = self._nodes.get(path)
        return node


def stat_of(path: str, node: Node, session: int) -> Stat:
    """Return a node's stat as `session` sees it."""
    return Stat(
        path,
        node.version,
        node.created_ms,
        node.modified_ms,
        node.created_revision,
        node.modified_revision,
        is_ephemeral=node.owner is not None,
        created_by_self=node.owner == session,
    )


def _check_version(path: str, node: Node | None, expected: int | None) -> None:
    version = NEW if node is None else node.version
    if expected is not None and expected != version:
        raise BadVersion(path=path, expected_version=expected, version=version)
