"""The things that a request is for, according to its path and query: their leader answers it.

Each topic, namespace and transaction has one leader. Only the servers know which of them share a
leader.
"""

from typing import NamedTuple
from urllib.parse import parse_qsl

_OF_NAMESPACE = ("positions", "publish", "topics")
"""Parts of the paths of requests for several or all topics of a namespace."""
DEFAULT_NAMESPACE = "default"


class RouteKey(NamedTuple):
    """A thing that has one leader."""

    kind: str
    """`topic`, `namespace` or `transaction`."""
    name: str
    """For a topic, `namespace/topic`."""


Keys = tuple[RouteKey, ...]
"""The thing that a request is for; then others that may have the same leader."""


def keys_of(path: str) -> Keys:
    """Return the things that a request to `path`, with its query, is for; () if there are none."""
    place, _, query = path.partition("?")
    match place.strip("/").split("/"):
        case ["v1", "namespaces", namespace, "topics", topic, *_]:
            return _of_home(namespace, topic)
        case ["v1", "namespaces", namespace, part] if part in _OF_NAMESPACE:
            return _of_home(namespace, dict(parse_qsl(query)).get("topic", ""))
        case ["v1", "transactions"]:
            named = dict(parse_qsl(query))
            if named.keys() <= {"namespace", "topic"}:  # with more, it is a list
                return _of_home(named.get("namespace", DEFAULT_NAMESPACE), named.get("topic", ""))
        case ["v1", "transactions", number, *_] if number.isascii() and number.isdigit():
            return (RouteKey("transaction", number),)
    return ()


def _of_home(namespace: str, topic: str) -> Keys:
    if not namespace:
        return ()
    of_namespace = RouteKey("namespace", namespace)
    return (RouteKey("topic", f"{namespace}/{topic}"), of_namespace) if topic else (of_namespace,)
