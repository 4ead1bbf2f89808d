"""Puts and deletes that a store carries out together."""

from collections.abc import Iterable
from typing import Protocol


class Batch(Protocol):
    """Puts and deletes to be written together, in the order they were added. Not thread-safe."""

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Add a put."""
        ...

    def put_rows(
        self,
        table: str,
        rows: Iterable[tuple[bytes, bytes]],
        prefix: bytes = b"",
        start: bytes = b"",
    ) -> None:
        """Add a put for each key, behind `prefix`, and value, behind `start`.

        As `put` for many, at less cost.
        """
        ...

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete; deleting what is not there is no error."""
        ...

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key: `delete` for many, at less cost."""
        ...

    def require_atomic(self) -> None:
        """Let no crash leave a part of the batch. Costs more on a store that is not atomic."""
        ...
