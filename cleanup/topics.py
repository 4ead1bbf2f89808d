"""The topics as cleanup goes through them, with what it remembers of each from pass to pass.

What it remembers is until when there is nothing to do: so a topic that is idle costs a pass no more
than its row of the Metadata table, which is not even decoded where it is as before. Of a deleted
topic that only waits until its row may go, a number is remembered, about 90 bytes. The rows are not
even read where the store says that none was changed since they were, and none waits no more.

What has expired is decided by a row and the time as of which that was read, however long the pass
takes to come to it. A ttl that is raised later writes down what has expired by then, which is no
less (`TopicMetadata.changed`). So no pass deletes what readers are still given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tables.metadata_table import decoded
from tables.raising import shown_rows
from tables.store import METADATA, Row, Store
from tms.core.clock import Clock
from tms.core.topic import TopicMetadata


class MetadataPage(NamedTuple):
    """Rows of the Metadata table."""

    as_of_ms: int
    """The time as of which they are so, in ms since 1970."""
    exchanges: int | None
    """How many changes the store had begun by then; None: others may change it."""
    rows: list[Row]
    is_as_before: bool = False
    """Whether all rows are as they were in the last pass, and so none was read."""


ReadPage = Callable[[Callable[[], MetadataPage]], MetadataPage]

_MINUTE_MS = 60_000
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
    waits_until_ms: int = 0
    """As of when there is something to do again for a deleted topic; 0: at the next pass."""
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
        self._waiting: dict[int, int] = {}
        """As of when to look again, by the hash of a row with its key; they share the times."""
        self._new = 0
        """How many topics the pass that runs has met that were not known before."""
        self._waits_until_ms = 0
        """When the first of them waits no more."""
        self._exchanges: int | None = None
        """The count of changes as of which all rows are known; None: read them."""

    def __len__(self) -> int:
        return len(self._known) + len(self._waiting) + self._new

    def all(self) -> Iterator[Known]:
        """Give the topics by row key, also deleted ones, but for those that wait.

        Afterwards forget those whose row was not there. Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        self._new = 0
        given: dict[bytes, Known] = {}
        waiting: dict[int, int] = {}
        times: dict[int, int] = {}
        start = b""
        steady_ms = self._clock.steady_ms()
        exchanges = None
        while True:
            shown = shown_rows(self._store)
            page = self._read(partial(self._page, start))
            as_of_ms, rows = page.as_of_ms, page.rows
            if not start:
                exchanges = page.exchanges
            if page.is_as_before:
                rows = [(key, known.row) for key, known in self._known.items()]
                waiting = self._waiting
            for key, value in rows:
                mark = hash((key, value))
                until_ms = self._waiting.get(mark, 0)
                if until_ms > as_of_ms:
                    waiting[mark] = until_ms
                    continue
                known = self._known.get(key)
                if known is None and not until_ms:
                    self._new += 1
                if known is None or known.row != value:
                    since_ms = 0 if until_ms else steady_ms  # one that waited is old
                    known = Known(value, decoded(key, shown(value)), since_ms, as_of_ms)
                known.as_of_ms = as_of_ms
                yield known
                until_ms = known.waits_until_ms // _MINUTE_MS * _MINUTE_MS
                if until_ms > as_of_ms:
                    waiting[mark] = times.setdefault(until_ms, until_ms)
                else:
                    given[key] = known
            if page.is_as_before or len(rows) < _ROWS:
                break
            start = rows[-1][0] + b"\x00"
        self._known, self._waiting, self._new = given, waiting, 0
        self._exchanges = exchanges
        self._waits_until_ms = min(waiting.values(), default=0)

    def _page(self, start: bytes) -> MetadataPage:
        """Return rows from `start` on, and the time as of which they are so."""
        # A write that failed may be a change that comes to light later, with an earlier time.
        self._store.check_writable()
        as_of_ms = self._clock.deletion_ms() - self._behind_ms
        exchanges = self._store.exchanges
        is_same = not start and exchanges is not None and exchanges == self._exchanges
        if is_same and (not self._waiting or as_of_ms < self._waits_until_ms):
            return MetadataPage(as_of_ms, exchanges, [], is_as_before=True)
        with self._store.scan(METADATA, start, b"\xff", limit=_ROWS) as found:
            return MetadataPage(as_of_ms, exchanges, list(found))
