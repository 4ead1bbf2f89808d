"""The rows in which a metadata store keeps its values on this machine's disk.

One ordered map of bytes to bytes; the server's assembly supplies a table in the data folder. Both
calls block and are made from a worker thread, one at a time.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol


class MetadataRows(Protocol):
    """Rows that are read once at the start and then written in batches."""

    def read_all(self) -> Iterable[tuple[bytes, bytes]]:
        """Return all rows, keys ascending. Raises `StoreUnavailable`."""
        ...

    def write(self, rows: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Put rows, or delete those with value None, all or none; durable on return.

        After `StoreUnavailable` it may have been done; a later `read_all` shows it.
        """
        ...
