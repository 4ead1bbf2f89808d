"""The changes between two JSON Schemas, one by one. Pure."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Protocol

from tms.registry.json_nodes import Keywords, SchemaNode, SchemaPlace
from tms.registry.questions import Incompatibility


class Differ(Protocol):
    """Compares schemas within schemas."""

    def differences(
        self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace, path: str
    ) -> list[Incompatibility]:
        """Return why `new` does not take all that `old` does; nothing if it does."""
        ...

    def fits(self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace) -> bool:
        """Whether `new` takes all that `old` does."""
        ...


def difference(kind: str, path: str, message: str) -> Incompatibility:
    """Return a difference at a path."""
    return Incompatibility(kind, path or "/", message)


def upper_bound(
    old: Keywords, new: Keywords, name: str, path: str, kind: str
) -> Iterator[Incompatibility]:
    """Tell of a greatest value that was added or lowered."""
    before, after = number_of(old, name), number_of(new, name)
    if after is not None and before is None:
        yield difference(f"{kind}_ADDED", path, f"{name} is {after} now")
    elif after is not None and before is not None and after < before:
        yield difference(f"{kind}_DECREASED", path, f"{name} was {before}, and is {after} now")


def lower_bound(
    old: Keywords, new: Keywords, name: str, path: str, kind: str
) -> Iterator[Incompatibility]:
    """Tell of a least value that was added or raised."""
    before, after = number_of(old, name), number_of(new, name)
    if after is not None and before is None:
        yield difference(f"{kind}_ADDED", path, f"{name} is {after} now")
    elif after is not None and before is not None and after > before:
        yield difference(f"{kind}_INCREASED", path, f"{name} was {before}, and is {after} now")


def number_of(keywords: Keywords, name: str) -> Decimal | int | None:
    """Return the number that a keyword says, None if there is none."""
    value = keywords.get(name)
    if name in ("exclusiveMaximum", "exclusiveMinimum") and isinstance(value, bool):
        # Of draft 4: it says of the other keyword that it is exclusive.
        value = keywords.get(name.replace("exclusiveM", "m")) if value else None
    is_number = isinstance(value, Decimal | int) and not isinstance(value, bool)
    return value if is_number else None
