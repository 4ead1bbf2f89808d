"""What a row of the catalogue of problems is (`tms.core.problems`)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the catalogue: one thing that can go wrong."""

    code: str
    status: int
    message: str
    error: str
    """The name of its class in `tms.core.errors`."""
