"""Tables and counts for people."""

from collections.abc import Mapping, Sequence


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines whose columns stand below each other, the heads first."""
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def named(facts: Mapping[str, object]) -> str:
    """Return a line for each fact, with its name before it; a list is given with spaces."""
    width = max(map(len, facts))
    return "\n".join(
        f"{name:<{width}}  {' '.join(map(str, fact)) if isinstance(fact, list) else fact}"
        for name, fact in facts.items()
    )


def counted(count: int, one: str) -> str:
    """Return how many there are: "1 message", "2 messages"."""
    return f"{count:d} {one}" if count == 1 else f"{count:d} {one}s"
