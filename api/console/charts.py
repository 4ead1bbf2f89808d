"""Charts of the last hour: points for uPlot, and a table for browsers without JavaScript."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.console import shown

_DIGITS = 4

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one hour."""

    title: str
    unit: str
    """The unit of its values: `B`, `s`, or empty for counts; rates end in `/s`."""
    times_ms: Sequence[int]
    lines: Sequence[tuple[str, Values]]
    """Each line's name, and its value at each time."""
    points_per_row: int = 6
    """How many points in time a row of the table covers."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not any(value is not None for _, values in self.lines for value in values)

    @property
    def points(self) -> str:
        """The points as JSON."""
        return json.dumps(
            {
                "unit": self.unit,
                "names": [name for name, _ in self.lines],
                "data": [
                    [time_ms // 1000 for time_ms in self.times_ms],
                    *([_rounded(value) for value in values] for _, values in self.lines),
                ],
            },
            separators=(",", ":"),
        )

    @property
    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows of the table, the newest first: a time, and the values as text."""
        for at in range(len(self.times_ms) - 1, -1, -self.points_per_row):
            yield self.times_ms[at], [self.text_of(values[at]) for _, values in self.lines]

    def text_of(self, value: float | None) -> str:
        """Return a value as text."""
        if value is None:
            return shown.number(None)
        if self.unit == "s":
            return shown.span(value)
        rate = "/s" if self.unit.endswith("/s") else ""
        return f"{shown.size(value) if self.unit.startswith('B') else shown.number(value)}{rate}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
