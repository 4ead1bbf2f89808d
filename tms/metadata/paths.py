"""Paths: `/`, or names, each after a `/`. If one kind of store refuses a path, all do."""

from collections.abc import Iterator

from tms.core.errors import InvalidRequest

ROOT = "/"


def check_path(path: str) -> None:
    """Raise `InvalidRequest` unless `path` is a valid path."""
    if path == ROOT:
        return
    start, *names = path.split("/")
    if (
        start
        or not names
        or not path.isprintable()
        or any(name in ("", ".", "..") for name in names)
    ):
        raise InvalidRequest("invalid_path", path=path)


def check_value_path(path: str) -> None:
    """Raise `InvalidRequest` unless `path` may have a value: any but the root."""
    check_path(path)
    if path == ROOT:
        raise InvalidRequest("invalid_path", path=path)


def parent_of(path: str) -> str:
    """Return the path above one that is not the root."""
    return path.rpartition("/")[0] or ROOT


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths above, the nearest first and the root last."""
    while path != ROOT:
        path = parent_of(path)
        yield path


def prefix_below(path: str) -> str:
    """Return the prefix of all paths below `path`."""
    return path if path == ROOT else f"{path}/"


def is_at_or_below(path: str, top: str) -> bool:
    """Whether `path` is `top`, or below it."""
    return path == top or path.startswith(prefix_below(top))
