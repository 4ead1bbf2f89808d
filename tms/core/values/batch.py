"""Puts and deletes that a store performs together."""

from collections.abc import Iterable
from typing import Protocol


class Batch(Protocol):
    """Puts and deletes to write together, in the order of their addition. Not thread-safe."""

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
        """Add a put for each key, after `prefix`, and value, after `start`.

        Like `put`, but cheaper for many.
        """
        ...

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete; deleting a missing key is not an error."""
        ...

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key; cheaper than `delete` for many."""
        ...

    def require_atomic(self) -> None:
        """Require that no crash leaves part of the batch; costs more if the store is not atomic."""
        ...
