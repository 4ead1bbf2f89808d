"""The decision on a request: its answer, and the records for the log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tms.registry.state.records import Purged, Record

A = TypeVar("A")
Part = Sequence[Record | Purged]
"""Records that are written together or not at all."""


@dataclass(frozen=True, slots=True)
class Decided(Generic[A]):
    """A decision. It is valid until the log has something new."""

    answer: A
    parts: Sequence[Part] = ()
    """Parts in the order of writing: all at once, or one after another if they are too many for
    one publish. The state after each part must be valid, and a new decision must then cover the
    rest. None if nothing has to be written.
    """

    @property
    def records(self) -> Iterator[Record | Purged]:
        """All records to write."""
        return (record for part in self.parts for record in part)
