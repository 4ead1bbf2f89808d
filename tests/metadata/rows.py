"""Rows that fail on request."""

from collections.abc import Sequence

from tables.coordination_rows import CoordinationRows
from tables.memory import MemoryStore
from tms.core.errors import OutcomeUnknown


class FailingRows(CoordinationRows):
    """Rows in memory; `fail_next` makes the next write fail, after or instead of writing."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.fail_next: str | None = None

    def write(self, rows: Sequence[tuple[bytes, bytes | None]]) -> None:
        how, self.fail_next = self.fail_next, None
        if how != "before":
            super().write(rows)
        if how is not None:
            raise OutcomeUnknown(reason="a test")
