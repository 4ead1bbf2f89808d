"""The topics as cleanup goes through them, with what it remembers of each from pass to pass.

What it remembers is until when there is nothing to do: so a topic that is idle costs a pass no more
than its row of the Metadata table, which is not even decoded where it is as before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tables.metadata_table import decoded
from tables.store import METADATA, Store
from tms.core.topic import Topic

_ROWS = 500
"""Rows of the Metadata table read at a time."""


@dataclass(slots=True)
class Known:
    """What is remembered of a topic, as long as its row stays as it is."""

    row: bytes
    topic: Topic
    since_ms: int
    """When the row was first seen so, in steady time."""
    messages_due_ms: int = 0
    """No message expires before that."""
    payloads_due_ms: int = 0
    """No stored payload does."""
    is_clean: bool = False
    """Whether nothing is left of dead generations, for good."""
    dropped_bytes: int = 0
    """How large the rows were that were dropped since the room was last given back."""


class KnownTopics:
    """All topics of a store. Used from one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def all(self, steady_ms: int) -> Iterator[Known]:
        """Give all topics by row key, deleted ones included; afterwards forget those not given.

        `steady_ms` is the present steady time. Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        given: dict[bytes, Known] = {}
        start = b""
        while True:
            with self._store.scan(METADATA, start, b"\xff", limit=_ROWS) as found:
                rows = list(found)
            for key, value in rows:
                known = self._known.get(key)
                if known is None or known.row != value:
                    known = Known(value, decoded(key, value), steady_ms)
                given[key] = known
                yield known
            if len(rows) < _ROWS:
                break
            start = rows[-1][0] + b"\x00"
        self._known = given

    def topics(self) -> Iterator[Topic]:
        """Give the topics that the last pass saw."""
        return iter([known.topic for known in self._known.values()])
