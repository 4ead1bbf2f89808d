"""The topics as cleanup goes through them, with what it remembers of each from pass to pass.

What it remembers is until when there is nothing to do: so a topic that is idle costs a pass no more
than its row of the Metadata table, which is not even decoded where it is as before. Of a deleted
topic that waits, a number is remembered, about 90 bytes: it was emptied, and is once more after a
minute, or nothing of it is left but its last row, which may not go yet. The rows are not even read
where the store says that none was changed since they were, and none waits no more.

What has expired is decided by a row and the time as of which that was read, however long the pass
takes to come to it. A ttl that is raised later writes down what has expired by then, which is no
less (`TopicMetadata.changed`). So no pass deletes what readers are still given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tables.metadata_table import decoded
from tables.raising import shown_rows
from tables.store import METADATA, Row, Store
from tms.core.runtime.clock import Clock
from tms.core.values.topic import TopicMetadata


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

_ROWS = 500
"""Rows of the Metadata table read at a time."""


class Wait(NamedTuple):
    """When there is something to do again for a deleted topic. Topics share equal ones."""

    steady_ms: int = 0
    """In steady time."""
    as_of_ms: int = 0
    """In ms since 1970."""

    def is_over(self, steady_ms: int, as_of_ms: int) -> bool:
        """Whether both times have come."""
        return self.steady_ms <= steady_ms and self.as_of_ms <= as_of_ms


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
    wait: Wait | None = None
    """Until when there is nothing to do for a deleted topic; None if it does not wait."""
    is_forgotten: bool = False
    """Whether the row was deleted."""
    dropped_bytes: int = 0
    """How large the rows were that were dropped since the room was last given back."""


@dataclass(slots=True)
class _Met:
    """The topics that a pass has met."""

    known: dict[bytes, Known] = field(default_factory=dict)
    waiting: dict[int, Wait] = field(default_factory=dict)
    """The deleted topics that wait, by the hash of a row with its key."""
    waits: dict[Wait, Wait] = field(default_factory=dict)
    """Their waits, each once."""

    def add_waiting(self, mark: int, wait: Wait) -> None:
        """Remember a topic that waits by its hash alone."""
        self.waiting[mark] = self.waits.setdefault(wait, wait)

    def add(self, key: bytes, topic: Known) -> None:
        """Remember as little of a topic as will do."""
        if topic.wait is not None:
            self.add_waiting(hash((key, topic.row)), topic.wait)
        elif not topic.is_forgotten:
            self.known[key] = topic


class KnownTopics:
    """All topics of a store. Used from one thread."""

    def __init__(self, store: Store, clock: Clock, read: ReadPage, behind_ms: int = 0) -> None:
        """Read rows by `read`, a page at a time; let as much time pass as a change may take."""
        self._store = store
        self._clock = clock
        self._read = read
        self._behind_ms = behind_ms
        self._last = _Met()
        """By the last pass that met all."""
        self._new = 0
        """How many topics the pass that runs has met that `_last` does not have, or has no more."""
        self._exchanges: int | None = None
        """The count of changes as of which all rows are known; None: read them."""

    def __len__(self) -> int:
        return len(self._last.known) + len(self._last.waiting) + self._new

    def pages(self) -> Iterator[list[Known]]:
        """Give the topics by row key, a page at a time, also deleted ones, but for those that wait.

        Afterwards forget those whose row was not there. Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        self._new = 0
        met = _Met()
        start = b""
        exchanges = None
        while True:
            shown = shown_rows(self._store)
            page = self._read(partial(self._page, start))
            # After they were read: what was put before, is older by then.
            steady_ms = self._clock.steady_ms()
            rows = page.rows
            if not start:
                exchanges, self._exchanges = page.exchanges, None
            if page.is_as_before:
                rows = [(key, known.row) for key, known in self._last.known.items()]
                met = _Met(waiting=self._last.waiting, waits=self._last.waits)
            for first in range(0, len(rows), _ROWS):
                some = rows[first : first + _ROWS]
                due = self._due(some, met, shown, steady_ms, page.as_of_ms)
                yield list(due.values())
                for key, known in due.items():
                    met.add(key, known)
            if page.is_as_before or len(rows) < _ROWS:
                break
            start = rows[-1][0] + b"\x00"
        self._last, self._new, self._exchanges = met, 0, exchanges

    def _due(
        self,
        rows: list[Row],
        met: _Met,
        shown: Callable[[bytes], bytes],
        steady_ms: int,
        as_of_ms: int,
    ) -> dict[bytes, Known]:
        """Return the topics of rows that do not wait, by row key."""
        due: dict[bytes, Known] = {}
        for key, value in rows:
            mark = hash((key, value))
            wait = self._last.waiting.get(mark)
            if wait is not None and not wait.is_over(steady_ms, as_of_ms):
                met.add_waiting(mark, wait)
                continue
            # If the pass fails after a row was deleted, an equal one may be put again: that is new.
            self._last.waiting.pop(mark, None)
            known = self._last.known.get(key)
            if known is not None and not known.topic.exists:
                del self._last.known[key]
                self._new += 1
            elif known is None:
                self._new += 1
            if known is None or known.row != value:
                since_ms = steady_ms if wait is None else 0  # one that waited is old
                known = Known(value, decoded(key, shown(value)), since_ms, as_of_ms)
            known.as_of_ms = as_of_ms
            due[key] = known
        return due

    def _page(self, start: bytes) -> MetadataPage:
        """Return rows from `start` on, and the time as of which they are so."""
        # A write that failed may be a change that comes to light later, with an earlier time.
        self._store.check_writable()
        as_of_ms = self._clock.deletion_ms() - self._behind_ms
        exchanges = self._store.exchanges
        is_same = not start and exchanges is not None and exchanges == self._exchanges
        steady_ms = self._clock.steady_ms()
        if is_same and not any(wait.is_over(steady_ms, as_of_ms) for wait in self._last.waits):
            return MetadataPage(as_of_ms, exchanges, [], is_as_before=True)
        with self._store.scan(METADATA, start, b"\xff", limit=_ROWS) as found:
            return MetadataPage(as_of_ms, exchanges, list(found))
