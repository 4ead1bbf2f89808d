"""Formats values for people: numbers, sizes, times, and bytes from anywhere.

Templates escape everything. Invisible characters (controls, marks that change the direction of
text) are shown as their codes, so that no payload can look like something else.
"""

from datetime import UTC, datetime

from markupsafe import Markup

from api.http.prose import html_of
from tms.core.text.printable import printable

_NOTHING = "-"
_DIGITS_BELOW = 10
"""Below this number of milliseconds, a decimal is shown."""
_KILO = 1000
_LONG = 100
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: float | None) -> str:
    """Return a count or a rate in a few characters."""
    if value is None:
        return _NOTHING
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def thousands(value: int | None) -> str:
    """Return a count with its thousands separated."""
    return _NOTHING if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """Return a number of bytes."""
    return (
        _NOTHING if value is None else f"{number(value)}B" if value >= _KILO else f"{value:.0f} B"
    )


def span(seconds: float | None) -> str:
    """Return a duration."""
    if seconds is None:
        return _NOTHING
    for length, unit in _SPANS:
        if seconds >= length:
            value = seconds / length
            return f"{value:,.0f} {unit}" if value >= _LONG else f"{value:.3g} {unit}"
    ms = seconds * 1000
    return f"{ms:.2g} ms" if ms < _DIGITS_BELOW else f"{ms:.0f} ms"


def moment(ms: float | None) -> str:
    """Return a time in ms since 1970, in UTC."""
    if ms is None:
        return _NOTHING
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def text(value: str) -> str:
    """Return a text with invisible characters as codes."""
    return printable(value, allowed="\n\t")


def prose(value: str) -> Markup:
    """Return a text like `text`, with the parts between backticks as code."""
    return Markup(html_of(text(value)))  # noqa: S704  html_of has escaped it


def payload(value: bytes, chars_max: int = 4_000) -> str:
    """Return the start of a payload as text, or as hexadecimal digits if it is not UTF-8."""
    cut = value[: chars_max * 4]
    try:
        decoded = cut.decode()
    except UnicodeDecodeError as error:
        is_cut_within = len(cut) < len(value) and error.start >= len(cut) - 3
        decoded = cut[: error.start].decode() if is_cut_within else cut[: chars_max // 2].hex(" ")
    shown = text(decoded[:chars_max])
    return f"{shown}…" if len(value) > len(cut) or len(decoded) > chars_max else shown
