"""The topics as cleanup goes through them, with what it remembers of each from pass to pass.

What it remembers is until when there is nothing to do: so a topic that is idle costs a pass no more
than its row of the Metadata table, which is not even decoded where it is as before.

What has expired is decided by a row and the time as of which that was read, however long the pass
takes to come to it. A ttl that is raised later writes down what has expired by then, which is no
less (`TopicMetadata.changed`). So no pass deletes what readers are still given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tables.metadata_table import decoded
from tables.raising import shown_rows
from tables.store import METADATA, Row, Store
from tms.core.clock import Clock
from tms.core.topic import TopicMetadata

Page = tuple[int, list[Row]]
ReadPage = Callable[[Callable[[], Page]], Page]

_ROWS = 500
"""Rows of the Metadata table read at a time."""


@dataclass(slots=True)
class Known:
    """The facts about a topic that are remembered as long as its row does not change."""

    row: bytes
    topic: TopicMetadata
    since_ms: int
    """When the row was first seen so, in steady time."""
    as_of_ms: int
    """When it was last seen so, in ms since 1970: what had expired by then may go."""
    messages_due_ms: int = 0
    """No message expires before that."""
    payloads_due_ms: int = 0
    """No stored payload does, if pointers are about as old as what is stored under them."""
    all_payloads_steady_ms: int = 0
    """When to look at all pointers, in steady time."""
    is_clean: bool = False
    """Whether nothing is left of dead generations, for good."""
    dropped_bytes: int = 0
    """How large the rows were that were dropped since the room was last given back."""


class KnownTopics:
    """All topics of a store. Used from one thread."""

    def __init__(self, store: Store, clock: Clock, read: ReadPage, behind_ms: int = 0) -> None:
        """Read rows by `read`, a page at a time; let as much time pass as a change may take."""
        self._store = store
        self._clock = clock
        self._read = read
        self._behind_ms = behind_ms
        self._known: dict[bytes, Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> Iterator[Known]:
        """Give all topics by row key, deleted ones included; afterwards forget those not given.

        Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        given: dict[bytes, Known] = {}
        start = b""
        steady_ms = self._clock.steady_ms()
        while True:
            shown = shown_rows(self._store)
            as_of_ms, rows = self._read(partial(self._page, start))
            for key, value in rows:
                known = self._known.get(key)
                if known is None or known.row != value:
                    known = Known(value, decoded(key, shown(value)), steady_ms, as_of_ms)
                known.as_of_ms = as_of_ms
                given[key] = known
                yield known
            if len(rows) < _ROWS:
                break
            start = rows[-1][0] + b"\x00"
        self._known = given

    def _page(self, start: bytes) -> Page:
        """Return rows from `start` on, and the time as of which they are so."""
        # A write that failed may be a change that comes to light later, with an earlier time.
        self._store.check_writable()
        as_of_ms = self._clock.deletion_ms() - self._behind_ms
        with self._store.scan(METADATA, start, b"\xff", limit=_ROWS) as found:
            return as_of_ms, list(found)
