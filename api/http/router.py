"""A table of routes, built from templates: `/v1/namespaces/{namespace}/topics`.

A path is split at its slashes as received, and then each part is decoded: `%2F` is a slash within a
name, not a separator. A literal part takes precedence over a name; a name is never empty.

Tables are mounted under a prefix, which may have names of its own (`/contexts/{context}`). So a
listener has one table, with one look-up for each request.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Never, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from cachetools import FIFOCache

from tms.core.errors import InvalidRequest

T = TypeVar("T")
Unmatched = Callable[[str, Mapping[str, Any]], T]
"""Returns the target of a request that no route matches, by the error's code and detail."""
_KEPT = 16_384
"""Paths whose matches are cached: up to 900 bytes each, so 15 MB."""
_ASKED_ONCE = 1_024
"""Paths remembered after their first request: the second one caches the match."""
_KEPT_CHARS_MAX = 600


class Route(NamedTuple, Generic[T]):
    """The route for one method of one path."""

    method: str
    template: str
    target: T


class RouteMatch(NamedTuple, Generic[T]):
    """The target of a request, and the names in its path."""

    target: T
    names: Mapping[str, str]
    """The decoded parts of the path, by their names in the template."""


@dataclass(slots=True)
class _Node(Generic[T]):
    """A part of paths, and what may follow it."""

    literals: dict[str, "_Node[T]"] = field(default_factory=dict)
    name: "_Node[T] | None" = None
    """The node for any part."""
    methods: dict[str, tuple[T, tuple[str, ...]]] = field(default_factory=dict)
    """By method: the target, and the names of the parts in its template."""


def _refused(code: str, detail: Mapping[str, Any]) -> Never:
    raise InvalidRequest(code, **detail)


class Router(Generic[T]):
    """Finds the target of a method and a path. A slash at the end of a path is ignored."""

    def __init__(self, routes: Iterable[Route[T]] = (), unmatched: Unmatched[T] = _refused) -> None:
        """Pass requests without a route to `unmatched`, which by default raises an error."""
        self.routes: list[Route[T]] = []
        self.unmatched = unmatched
        self._mounted: list[tuple[list[str], Unmatched[T]]] = []
        """The parts of prefixes, with the `unmatched` for requests below them."""
        self._root: _Node[T] = _Node()
        self._known: dict[str, dict[str, RouteMatch[T]]] = {}
        """The matches of paths; if there are too many, the oldest are dropped."""
        self._asked_once: FIFOCache[str, None] = FIFOCache(_ASKED_ONCE)
        """Paths that are not cached yet: a path that is requested once drops no match."""
        self.mount("", routes)

    def paths_kept(self) -> int:
        """Return the number of cached paths."""
        return len(self._known)

    def mount(self, prefix: str, routes: Iterable[Route[T]]) -> None:
        """Add routes below a prefix. No two may have the same method and path."""
        self._known.clear()
        for method, template, target in routes:
            path = without_last_slash(prefix + template)
            self.routes.append(Route(method, path, target))
            node, names = self._root, []
            for part in path.split("/")[1:]:
                if part.startswith("{"):
                    names.append(part.strip("{}"))
                    node.name = node.name or _Node()
                    node = node.name
                else:
                    node = node.literals.setdefault(part, _Node())
            assert method not in node.methods, (method, path)
            node.methods[method] = target, tuple(names)

    def mount_whole(self, prefix: str, other: "Router[T]") -> None:
        """Pass all requests below a prefix to another table, even those without a route there."""
        self.mount(prefix, other.routes)
        self._mounted.append((prefix.split("/"), other.unmatched))

    def replace(self, route: Route[T]) -> None:
        """Change the target of an existing method and path."""
        [before] = [each for each in self.routes if each[:2] == route[:2]]
        self.routes.remove(before)
        node = _walk(self._root, route.template.split("/"), 1, [])
        assert node is not None, route
        del node.methods[route.method]
        self.mount("", [route])

    def find(self, method: str, path: str) -> RouteMatch[T]:
        """Return the match of a request; `path` is as received, not decoded.

        HEAD has the route of GET. A request without a route has the target of `unmatched`, for
        not_found, method_not_allowed or malformed_request.
        """
        by_method = self._known.get(path)
        if by_method is None:
            by_method = self._look_up(path)
        match = by_method.get(method)
        if match is None:
            match = by_method.get("GET") if method == "HEAD" else None
            if match is None:
                return self._nowhere(method, path, by_method)
        return match

    def _look_up(self, path: str) -> dict[str, RouteMatch[T]]:
        """Return the matches of a path, by method, and cache them if there are any."""
        parts = _parts_of(path)
        values: list[str] = []
        node = None if not parts or parts[0] else _walk(self._root, parts, 1, values)
        if node is None:
            return {}
        by_names = {
            names: dict(zip(names, values, strict=True)) for _, names in node.methods.values()
        }
        by_method = {
            method: RouteMatch(target, by_names[names])
            for method, (target, names) in node.methods.items()
        }
        if len(path) <= _KEPT_CHARS_MAX:  # clients repeat their requests
            self._keep(path, by_method)
        return by_method

    def _keep(self, path: str, by_method: dict[str, RouteMatch[T]]) -> None:
        """Cache the matches of a path that was requested before."""
        if path not in self._asked_once:
            self._asked_once[path] = None
            return
        del self._asked_once[path]
        if len(self._known) == _KEPT:
            del self._known[next(iter(self._known))]
        self._known[path] = by_method

    def _nowhere(self, method: str, path: str, methods: Collection[str]) -> RouteMatch[T]:
        """Return the match of a request without a route; `known` are the path's methods."""
        parts, path = _parts_of(path), without_last_slash(path)
        code, detail = "not_found", {"path": path}
        if parts is None:
            parts = unquote(path).split("/")
            code, detail = "malformed_request", {"reason": "the path is not UTF-8"}
        elif methods:
            allow = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
            code, detail = "method_not_allowed", {"method": method, "allow": allow}
        for prefix, unmatched in self._mounted:
            if parts[: len(prefix)] == prefix:
                return RouteMatch(unmatched(code, detail), {})
        return RouteMatch(self.unmatched(code, detail), {})


def without_last_slash(path: str) -> str:
    """Return a path in the form of the routes."""
    return path[:-1] if path[-1:] == "/" != path else path


def _parts_of(path: str) -> list[str] | None:
    """Return the decoded parts of a path, the first of which is empty; None if it is not UTF-8."""
    parts = without_last_slash(path).split("/")
    try:
        return [unquote_to_bytes(part).decode() for part in parts] if "%" in path else parts
    except UnicodeDecodeError:
        return None


def _walk(node: _Node[T], parts: Sequence[str], at: int, values: list[str]) -> _Node[T] | None:
    """Return the node of a path's parts from `at` on, and add the names' values to `values`."""
    if at == len(parts):
        return node if node.methods else None
    part = parts[at]
    literal = node.literals.get(part)
    if literal is not None:
        match = _walk(literal, parts, at + 1, values)
        if match is not None:
            return match
    if node.name is None or not part:
        return None
    values.append(part)
    match = _walk(node.name, parts, at + 1, values)
    if match is None:
        values.pop()
    return match
