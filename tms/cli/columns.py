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
    """Return lines whose columns stand below each other, the heads first."""
    lines = [heads, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def named(facts: Mapping[str, object]) -> str:
    """Return a line for each fact, with its name before it; a list is given with spaces."""
    width = max(map(len, facts))
    return "\n".join(
        f"{name:<{width}}  {printable(_text_of(fact))}" for name, fact in facts.items()
    )


def _text_of(fact: object) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def by_number(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts names as people do: a2 before a10, and letters without their case."""
    return [
        (False, int(part), "") if part[0] in "0123456789" else (True, 0, part.casefold())
        for part in re.split(r"([0-9]+)", name)
        if part
    ]


def in_order(found: Iterable[T]) -> list[T]:
    """Return what has a name, sorted as `by_number` does."""
    return sorted(found, key=lambda each: by_number(each.name))


def counted(count: int, one: str) -> str:
    """Return how many there are: "1 message", "2 messages"."""
    return f"{count:d} {one}" if count == 1 else f"{count:d} {one}s"
