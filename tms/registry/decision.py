"""What is decided on a request: what it answers, and what the log is to say for that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tms.registry.records import Purged, Record

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Decided(Generic[A]):
    """A decision. It holds as long as the log says nothing new."""

    answer: A
    records: Sequence[Record | Purged] = ()
    """All of them are written at once, or none. None: nothing has to be written."""
