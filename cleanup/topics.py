"""The topics of a pass, with what cleanup remembers of each from pass to pass.

It remembers until when a topic needs no work. So an idle topic costs a pass only its row of the
Metadata table, which is not even decoded if unchanged. A deleted topic that waits costs a number,
about 90 bytes: it was emptied, and will be emptied once more after a minute; or only its last row
remains, which may not go yet. The rows are not even read if the store says that none has changed
and no wait is over.

Expiry is decided by a row and the time as of which it was read, however late in the pass. If a ttl
is raised later, the topic records what has expired by then, which is at least as much
(`TopicMetadata.changed`). So no pass deletes messages that readers still get.
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
    """The time as of which they were read, in ms since 1970."""
    exchanges: int | None
    """The store's `exchanges` at that time; None if other processes may change it."""
    rows: list[Row]
    is_as_before: bool = False
    """Whether all rows are unchanged since the last pass, so none was read."""


ReadPage = Callable[[Callable[[], MetadataPage]], MetadataPage]

_ROWS = 500
"""Rows of the Metadata table read at a time."""


class Wait(NamedTuple):
    """When a deleted topic needs work again. Topics share equal values."""

    steady_ms: int = 0
    """In steady time."""
    as_of_ms: int = 0
    """In ms since 1970."""

    def is_over(self, steady_ms: int, as_of_ms: int) -> bool:
        """Whether both times have passed."""
        return self.steady_ms <= steady_ms and self.as_of_ms <= as_of_ms


@dataclass(slots=True)
class RememberedTopic:
    """The facts about a topic that are remembered as long as its row does not change."""

    row: bytes
    topic: TopicMetadata
    since_ms: int
    """When the row was first read with this value, in steady time."""
    as_of_ms: int
    """When it was last read with this value, in ms since 1970: messages expired by then may go."""
    messages_due_ms: int = 0
    """No message expires before this time."""
    payloads_due_ms: int = 0
    """No stored payload expires before this time, if pointers are as old as their payloads."""
    all_payloads_steady_ms: int = 0
    """When to read all pointers, in steady time."""
    is_clean: bool = False
    """Whether no rows of dead generations remain, for good."""
    wait: Wait | None = None
    """Until when a deleted topic needs no work; None if it does not wait."""
    is_forgotten: bool = False
    """Whether the row was deleted."""
    dropped_bytes: int = 0
    """The size of the rows dropped since room was last freed."""


@dataclass(slots=True)
class _Met:
    """The topics that a pass has met."""

    remembered: dict[bytes, RememberedTopic] = field(default_factory=dict)
    waiting: dict[int, Wait] = field(default_factory=dict)
    """The deleted topics that wait, by the hash of a row with its key."""
    waits: dict[Wait, Wait] = field(default_factory=dict)
    """Their waits, without duplicates."""

    def add_waiting(self, mark: int, wait: Wait) -> None:
        """Remember only the hash of a topic that waits."""
        self.waiting[mark] = self.waits.setdefault(wait, wait)

    def add(self, key: bytes, topic: RememberedTopic) -> None:
        """Remember as little of a topic as possible."""
        if topic.wait is not None:
            self.add_waiting(hash((key, topic.row)), topic.wait)
        elif not topic.is_forgotten:
            self.remembered[key] = topic


class KnownTopics:
    """All topics of a store. Used from one thread."""

    def __init__(self, store: Store, clock: Clock, read: ReadPage, behind_ms: int = 0) -> None:
        """Read rows with `read`, a page at a time; a change may take `behind_ms`."""
        self._store = store
        self._clock = clock
        self._read = read
        self._behind_ms = behind_ms
        self._last = _Met()
        """From the last complete pass."""
        self._new = 0
        """The number of topics that the current pass has met and `_last` lacks."""
        self._exchanges: int | None = None
        """The store's `exchanges` when all rows were remembered; None if they must be read."""

    def __len__(self) -> int:
        return len(self._last.remembered) + len(self._last.waiting) + self._new

    def pages(self) -> Iterator[list[RememberedTopic]]:
        """Yield pages of topics by row key, deleted ones included, except those that wait.

        Afterwards forget topics without a row. Raises `StoreCorrupt`, `StoreUnavailable`.
        """
        self._new = 0
        met = _Met()
        start = b""
        exchanges = None
        while True:
            shown = shown_rows(self._store)
            page = self._read(partial(self._page, start))
            # Taken after the read, so that rows put earlier count as older.
            steady_ms = self._clock.steady_ms()
            rows = page.rows
            if not start:
                exchanges, self._exchanges = page.exchanges, None
            if page.is_as_before:
                rows = [(key, remembered.row) for key, remembered in self._last.remembered.items()]
                met = _Met(waiting=self._last.waiting, waits=self._last.waits)
            for first in range(0, len(rows), _ROWS):
                some = rows[first : first + _ROWS]
                due = self._due(some, met, shown, steady_ms, page.as_of_ms)
                yield list(due.values())
                for key, remembered in due.items():
                    met.add(key, remembered)
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
    ) -> dict[bytes, RememberedTopic]:
        """Return the topics in rows, without those that wait, by row key."""
        due: dict[bytes, RememberedTopic] = {}
        for key, value in rows:
            mark = hash((key, value))
            wait = self._last.waiting.get(mark)
            if wait is not None and not wait.is_over(steady_ms, as_of_ms):
                met.add_waiting(mark, wait)
                continue
            # If the pass fails after deleting a row, an equal row put again counts as new.
            self._last.waiting.pop(mark, None)
            remembered = self._last.remembered.get(key)
            if remembered is not None and not remembered.topic.exists:
                del self._last.remembered[key]
                self._new += 1
            elif remembered is None:
                self._new += 1
            if remembered is None or remembered.row != value:
                since_ms = steady_ms if wait is None else 0  # a topic that waited is old
                remembered = RememberedTopic(value, decoded(key, shown(value)), since_ms, as_of_ms)
            remembered.as_of_ms = as_of_ms
            due[key] = remembered
        return due

    def _page(self, start: bytes) -> MetadataPage:
        """Return rows from `start` on, and the time as of which they were read."""
        # A failed write may turn out later to be a change, with an earlier time.
        self._store.check_writable()
        as_of_ms = self._clock.deletion_ms() - self._behind_ms
        exchanges = self._store.exchanges
        is_same = not start and exchanges is not None and exchanges == self._exchanges
        steady_ms = self._clock.steady_ms()
        if is_same and not any(wait.is_over(steady_ms, as_of_ms) for wait in self._last.waits):
            return MetadataPage(as_of_ms, exchanges, [], is_as_before=True)
        with self._store.scan(METADATA, start, b"\xff", limit=_ROWS) as scanned:
            return MetadataPage(as_of_ms, exchanges, list(scanned))
