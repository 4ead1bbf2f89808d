"""Part of a store whose writes a test can make fail."""

from collections.abc import Callable

from tms.core.errors import OutcomeUnknown
from tms.core.values.batch import Batch


class WritesThatFail:
    """Whether writes fail, and whether failed writes are carried out all the same."""

    writes_fail = False
    writes_happen_all_the_same = False

    def write_or_fail(self, write: Callable[[Batch], None], batch: Batch) -> None:
        """Write like the store itself, or fail. Raises `OutcomeUnknown`."""
        if not self.writes_fail or self.writes_happen_all_the_same:
            write(batch)
        if self.writes_fail:
            raise OutcomeUnknown(reason="made to fail")
