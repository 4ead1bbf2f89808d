"""Tables and counts for people."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from tms.core.text.printable import printable


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the lines of a table with aligned columns, the heads first."""
    lines = [heads, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def named(facts: Mapping[str, object]) -> str:
    """Return a line for each fact, after its name; the items of a list are separated by spaces."""
    width = max(map(len, facts))
    return "\n".join(
        f"{name:<{width}}  {printable(_text_of(fact))}" for name, fact in facts.items()
    )


def _text_of(fact: object) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def by_number(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key for names that puts a2 before a10 and ignores the case of letters."""
    return [
        (False, int(part), "") if part[0] in "0123456789" else (True, 0, part.casefold())
        for part in re.split(r"([0-9]+)", name)
        if part
    ]


def in_order(items: Iterable[T]) -> list[T]:
    """Sort items with a name by `by_number`."""
    return sorted(items, key=lambda item: by_number(item.name))


def counted(count: int, one: str) -> str:
    """Return a count with its noun: "1 message", "2 messages"."""
    return f"{count:d} {one}" if count == 1 else f"{count:d} {one}s"
