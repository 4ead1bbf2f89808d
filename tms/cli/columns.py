"""Tables for people, and how long ago something was."""

from collections.abc import Sequence

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines whose columns stand below each other, the heads first."""
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def span(ms: int) -> str:
    """Return a time span in its largest unit, such as `3 min`."""
    for unit, unit_ms in _UNITS:
        if ms >= unit_ms:
            return f"{ms // unit_ms} {unit}"
    return f"{ms} ms"
