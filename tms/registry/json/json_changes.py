"""The individual changes between two JSON Schemas. Pure."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Protocol

from tms.registry.json.json_nodes import Keywords, SchemaNode, SchemaPlace
from tms.registry.questions.questions import Incompatibility


class Differ(Protocol):
    """Compares schemas within schemas."""

    def differences(
        self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace, path: str
    ) -> Iterator[Incompatibility]:
        """Yield why `new` does not accept all that `old` accepts; nothing if it does."""
        ...

    def fits(self, old: SchemaNode | SchemaPlace, new: SchemaNode | SchemaPlace) -> bool:
        """Whether `new` accepts all that `old` accepts."""
        ...


def difference(kind: str, path: str, message: str) -> Incompatibility:
    """Return a difference at a path."""
    return Incompatibility(kind, path or "/", message)


def bound(
    old: Keywords, new: Keywords, name: str, path: str, kind: str
) -> Iterator[Incompatibility]:
    """Yield a bound that was added, or accepts less than before."""
    before, after, is_least = number_of(old, name), number_of(new, name), "min" in name.lower()
    if after is None:
        return
    if before is None:
        yield difference(f"{kind}_ADDED", path, f"{name} is {after} now")
    elif after > before if is_least else after < before:
        word = "INCREASED" if is_least else "DECREASED"
        yield difference(f"{kind}_{word}", path, f"{name} was {before}, and is {after} now")


def number_of(keywords: Keywords, name: str) -> Decimal | int | None:
    """Return the number in a keyword, None if there is none."""
    value = keywords.get(name)
    if name in ("exclusiveMaximum", "exclusiveMinimum") and isinstance(value, bool):
        # In draft 4 it makes the other keyword exclusive.
        value = keywords.get(name.replace("exclusiveM", "m")) if value else None
    is_number = isinstance(value, Decimal | int) and not isinstance(value, bool)
    return value if is_number else None
