"""The rows that a metadata store on this machine's disk keeps its values in.

One ordered map of bytes to bytes; whoever puts the parts together gives a table of the data folder.
Both calls block and are made from a worker thread, one at a time.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol


class MetadataRows(Protocol):
    """Rows that are read whole at the start and written in batches after."""

    def read_all(self) -> Iterable[tuple[bytes, bytes]]:
        """Return all rows, keys ascending. Raises `StoreUnavailable`."""
        ...

    def write(self, rows: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Put rows (value None: delete), all or none, durable when it returns.

        Raises `StoreUnavailable`: then it may have been done, which a later `read_all` shows.
        """
        ...
