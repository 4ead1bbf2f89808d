"""The decision on a request: its answer, and the records for the log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tms.registry.state.records import Purged, Record

A = TypeVar("A")
Part = Sequence[Record | Purged]
"""Records that are written at once, or not at all."""


@dataclass(frozen=True, slots=True)
class Decided(Generic[A]):
    """A decision. It holds as long as the log says nothing new."""

    answer: A
    parts: Sequence[Part] = ()
    """They are written in their order: all at once, or if the log does not take so many messages,
    some after others. So what is there after some of them must be right, and whoever decides on
    the request anew then must decide on the rest. None: nothing has to be written."""

    @property
    def records(self) -> Iterator[Record | Purged]:
        """All that is written."""
        return (record for part in self.parts for record in part)
