"""Prints figures, one per line, as a Markdown table for the README."""

from collections.abc import Sequence


class Table:
    """A title, a head, and rows that are printed at once."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        """Print the title and the head."""
        self._widths = [max(len(column), 9) for column in columns]
        self._widths[0] = 44
        print(f"\n### {title}\n")
        self._print(columns)
        self._print(["-" * width for width in self._widths])

    def row(self, *cells: str) -> None:
        """Print a figure."""
        self._print(cells)

    def _print(self, cells: Sequence[str]) -> None:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        print("| " + " | ".join(padded) + " |", flush=True)


def rate(per_s: float) -> str:
    """Return a rate or a count in short form."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if per_s >= 0.9995 * size:
            return f"{per_s / size:.3g} {unit}"
    return f"{per_s:.3g}"


def share(part: float, whole: float) -> str:
    """Return `part` as a percentage of `whole`."""
    return f"{100 * part / whole:.0f} %"


def times(mine: float, other: float) -> str:
    """Return `mine` as a multiple of `other`."""
    return f"{mine / other:.2f} x"


def mebibytes(size: float) -> str:
    """Return a size in MiB."""
    return f"{size / 1024**2:.0f} MiB"
