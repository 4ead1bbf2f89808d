"""One table of routes, made from templates: `/v1/namespaces/{namespace}/topics`.

A path is split at its slashes as it came, and then each part is decoded: `%2F` is a slash within a
name, not between two. A literal part goes before a name; a name is never empty.

Tables are mounted under a prefix, which may have names of its own (`/contexts/{context}`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from tms.core.errors import InvalidRequest

T = TypeVar("T")
_KEPT = 16_384
_KEPT_CHARS_MAX = 600


class Route(NamedTuple, Generic[T]):
    """The route for one method of one path."""

    method: str
    template: str
    target: T


class RouteMatch(NamedTuple, Generic[T]):
    """Where a request leads."""

    target: T
    names: Mapping[str, str]
    """The decoded parts of the path, by the names that the template gives them."""


@dataclass(slots=True)
class _Node(Generic[T]):
    """A part of paths, and what may follow it."""

    literals: dict[str, "_Node[T]"] = field(default_factory=dict)
    name: "_Node[T] | None" = None
    """The node for any part."""
    methods: dict[str, tuple[T, tuple[str, ...]]] = field(default_factory=dict)
    """By method: the target, and how its template names the parts."""


class Router(Generic[T]):
    """Finds the target of a method and a path."""

    def __init__(self, routes: Iterable[Route[T]] = ()) -> None:
        self._root: _Node[T] = _Node()
        self._known: dict[str, dict[str, RouteMatch[T]]] = {}
        """The matches of paths; if there are too many, the oldest are dropped."""
        for route in routes:
            self.add(route)

    def add(self, route: Route[T], prefix: str = "") -> None:
        """Add a route, behind a prefix. Two of one method and path are a mistake of ours."""
        self._known.clear()
        node, names = self._root, []
        for part in f"{prefix}{route.template}".split("/")[1:]:
            if part.startswith("{"):
                names.append(part.strip("{}"))
                node.name = node.name or _Node()
                node = node.name
            else:
                node = node.literals.setdefault(part, _Node())
        assert route.method not in node.methods, route
        node.methods[route.method] = route.target, tuple(names)

    def mount(self, prefix: str, routes: Iterable[Route[T]]) -> None:
        """Add routes behind a prefix."""
        for route in routes:
            self.add(route, prefix)

    def find(self, method: str, path: str) -> RouteMatch[T]:
        """Return where a request leads; `path` is as it came, not decoded.

        Raises `InvalidRequest` (not_found, method_not_allowed, malformed_request). HEAD leads to
        where GET does.
        """
        known = self._known.get(path) or self._look_up(path)
        found = known.get(method)
        if found is None:
            found = known.get("GET") if method == "HEAD" else None
            if found is None:
                allow = ", ".join(sorted({*known, "HEAD"} if "GET" in known else known))
                raise InvalidRequest("method_not_allowed", method=method, allow=allow)
        return found

    def _look_up(self, path: str) -> dict[str, RouteMatch[T]]:
        """Return where a path leads, by method, and keep it: clients ask again."""
        parts = path.split("/")
        if "%" in path:
            parts = [_decoded(part) for part in parts]
        values: list[str] = []
        node = _walk(self._root, parts, 1, values)
        if node is None or parts[0]:
            raise InvalidRequest("not_found", path=path)
        known = {
            method: RouteMatch(target, dict(zip(names, values, strict=True)))
            for method, (target, names) in node.methods.items()
        }
        if len(path) <= _KEPT_CHARS_MAX:
            if len(self._known) == _KEPT:
                del self._known[next(iter(self._known))]
            self._known[path] = known
        return known


def _walk(node: _Node[T], parts: list[str], at: int, values: list[str]) -> _Node[T] | None:
    """Return the node of a path's parts from `at` on, and have the names' values in `values`."""
    if at == len(parts):
        return node if node.methods else None
    part = parts[at]
    literal = node.literals.get(part)
    if literal is not None:
        found = _walk(literal, parts, at + 1, values)
        if found is not None:
            return found
    if node.name is None or not part:
        return None
    values.append(part)
    found = _walk(node.name, parts, at + 1, values)
    if found is None:
        values.pop()
    return found


def _decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("malformed_request", reason="the path is not UTF-8") from None
