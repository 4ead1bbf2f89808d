"""Parses and formats durations as people write them: seconds, or with units: `30s`, `12h`, `7d`.

Pure. No library fits: pydantic reads ISO 8601 (`PT12H`), which nobody types, and is not installed
with a client; existing parsers of `12h` accept much more, some of it wrongly (`1m`, a month).
"""

import re
from datetime import timedelta

Duration = int | float | str | timedelta
"""Seconds, as a number or as text; or text with units, `30s`, `12h`, `1h30m`, `7d`."""

_TOLD_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_UNITS_S = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_NUMBER = r"\d+(?:\.\d+)?"
_SECONDS = re.compile(rf"[+-]?{_NUMBER}", re.ASCII)
_WITH_UNITS = re.compile(
    "".join(rf"(?:({_NUMBER}){unit})?" for unit in _UNITS_S), re.ASCII | re.IGNORECASE
)


def seconds_of(duration: Duration) -> float:
    """Return the seconds, an int if they are whole. Raises `ValueError` with advice.

    A number is returned as it is, without a check of its sign.
    """
    if isinstance(duration, int | float):
        return duration
    if isinstance(duration, timedelta):
        return _whole(duration.total_seconds())
    text = duration.strip()
    if _SECONDS.fullmatch(text):
        return _whole(float(text))
    parts = _WITH_UNITS.fullmatch(text)
    if not text or parts is None:
        raise ValueError(
            f"{duration!r} is not a valid duration: give seconds, or units from weeks down to "
            "milliseconds, "
            "such as 30s, 15m, 12h, 1h30m, 7d, 2w, 500ms"
        )
    amounts = zip(parts.groups(), _UNITS_S.values(), strict=True)
    return _whole(sum(float(amount) * unit_s for amount, unit_s in amounts if amount))


def whole_seconds_of(duration: Duration) -> int:
    """Return the seconds, which must be whole. Raises `ValueError` if they are not."""
    seconds = seconds_of(duration)
    if isinstance(seconds, float) and not seconds.is_integer():
        raise ValueError(f"{duration!r} is not a whole number of seconds")
    return int(seconds)


def _whole(seconds: float) -> float:
    rounded = round(seconds, 6)  # 1.1 ms is 0.0011000000000000001 s
    return int(rounded) if rounded.is_integer() else rounded


def span(ms: int) -> str:
    """Return a time span in its largest unit, such as `3 min`."""
    for unit, unit_ms in _TOLD_UNITS:
        if ms >= unit_ms:
            return f"{ms // unit_ms} {unit}"
    return f"{ms} ms"
