"""Typed texts: names that confirm a change, and lines with names and values."""

from collections.abc import Iterator

from api.console.visit import Visit
from tms.core.errors import InvalidRequest


def check_confirmed(visit: Visit, name: str) -> None:
    """Raise `InvalidRequest` (invalid_body) unless the name was typed into the form."""
    if visit.form.get("typed", "").strip() != name:
        raise InvalidRequest("invalid_body", reason=f"nothing was done: type {name} to confirm")


def pairs_of(text: str, between: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in typed lines, which a sign separates.

    Raises `ValueError` with the start of a line that has no sign, or no name.
    """
    for line in text.splitlines():
        name, sign, value = (part.strip() for part in line.partition(between))
        if sign and name:
            yield name, value
        elif line.strip():
            raise ValueError(line[:100])
