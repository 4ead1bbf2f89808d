"""Texts that are typed: names that confirm a change, and lines of names with values."""

from collections.abc import Iterator

from api.console.visit import Visit
from tms.core.errors import InvalidRequest


def check_confirmed(visit: Visit, name: str) -> None:
    """Raise `InvalidRequest` (invalid_body) unless the form has the name, typed."""
    if visit.form.get("typed", "").strip() != name:
        raise InvalidRequest("invalid_body", reason=f"nothing was done: type {name} to confirm")


def pairs_of(text: str, between: str) -> Iterator[tuple[str, str]]:
    """Give the names and values in lines that were typed, with a sign between them.

    Raises `ValueError` with the start of a line that has no such sign, or no name.
    """
    for line in text.splitlines():
        name, sign, value = (part.strip() for part in line.partition(between))
        if sign and name:
            yield name, value
        elif line.strip():
            raise ValueError(line[:100])
