"""Options with durations: `--ttl 7d`. Numbers are seconds."""

from collections.abc import Callable
from typing import Any

import typer

from tms.core.text.durations import Duration, seconds_of, whole_seconds_of

METAVAR = "DURATION"
_FORMS = "Seconds, or 30s, 15m, 12h, 7d."


def duration(
    *flags: str, help_text: str, whole: bool = False, least_s: float | None = None, **options: Any
) -> Any:
    """Return the option, whose value is in seconds; `help_text` explains it."""
    read: Callable[[Duration], float] = whole_seconds_of if whole else seconds_of

    def parse(text: Duration) -> float:
        try:
            seconds = read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        if least_s is not None and seconds < least_s:
            raise typer.BadParameter(f"{text} is less than {least_s:g} s")
        return seconds

    return typer.Option(
        *flags, metavar=METAVAR, parser=parse, help=f"{help_text} {_FORMS}", **options
    )
