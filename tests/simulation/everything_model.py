"""The messages that readers may get, by topics, transactions and positions as seen from outside.

The server's clock runs, so expiry is known up to a margin: an entry is surely live, surely expired,
or in between. A request that was in progress when the server was killed was either done or not.
Which one is known once a reader gets its messages, or does not get them although they would be
live. A message that was missing once is never returned later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.messaging.groups.followed import Followed
from tms.core.services.messaging import RollbackRange
from tms.core.values.message import MessageId

Window = tuple[int, int]
"""The earliest and the latest time, in ms since 1970."""
MARGIN_MS = 50
"""How far keys may be ahead of the clock, if a millisecond's ids ran out or it was set back."""


class Fate(Enum):
    """How much is known of a transaction's outcome."""

    OPEN = "open"
    COMMITTED = "committed"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """A commit was in progress when the server was killed."""


@dataclass(eq=False)
class Tx:
    """A transaction, also one that publishes to several topics at once."""

    id: int | None
    open_until_ms: int
    """It may time out from this time on."""
    fate: Fate = Fate.OPEN
    ranges: list[tuple[str, int, RollbackRange]] = field(default_factory=list)
    """By topic and generation, the ranges that may be rolled back."""
    stored_in: set[tuple[str, int]] = field(default_factory=set)
    """The topics and generations where it has stored messages, which its commit publishes."""


@dataclass(eq=False)
class Publish:
    """The messages of one request: all of them exist, or none."""

    is_sure: bool
    tx: Tx | None = None


@dataclass(eq=False)
class Entry:
    """One message."""

    payload: bytes
    of: Publish
    written: Window
    is_gone: bool = False


def _is_open(tx: Tx | None, asked: Window) -> bool:
    """Whether a transaction is certainly in progress; not if the answer to its end was lost."""
    return tx is not None and tx.fate is Fate.OPEN and asked[1] < tx.open_until_ms


class Difference(AssertionError):
    """Readers got something that they must not get."""


@dataclass(eq=False)
class TopicModel:
    """A topic's name, and what is known of its present generation."""

    name: str
    bound: int | None = None
    """The least number of committed messages that it keeps; None if it keeps all."""
    exists: bool = False
    generation: int = 0
    ttl_s: int = 1
    expired: Window = (0, 0)
    """The earliest and latest time up to which entries had expired when the ttl was raised."""
    entries: list[Entry] = field(default_factory=list)
    positions: dict[str, tuple[bytes | None, int]] = field(default_factory=dict)
    group: Followed | None = None
    last_version: int = 0
    """The greatest version of any position, in any generation."""

    def created(self, generation: int, ttl_s: int) -> None:
        """Begin a generation."""
        if generation not in (self.generation + 1, 1):
            raise Difference(f"{self.name}: generation {generation} after {self.generation}")
        self.exists, self.generation, self.ttl_s, self.expired = True, generation, ttl_s, (0, 0)
        self.entries, self.positions, self.group = [], {}, None

    def deleted(self) -> None:
        """End the generation."""
        self.exists = False
        self.entries, self.positions, self.group = [], {}, None

    def changed(self, ttl_s: int, when: Window) -> None:
        """Take another ttl."""
        if ttl_s > self.ttl_s:
            low, high = (each - self.ttl_s * 1000 for each in when)
            self.expired = max(self.expired[0], low), max(self.expired[1], high)
        self.ttl_s = ttl_s

    def _is_live(self, entry: Entry, asked: Window) -> bool | None:
        """True if an entry is live all the time, False if never, None if only for some of it."""
        oldest = max(asked[1] - self.ttl_s * 1000, self.expired[1]) + MARGIN_MS
        if entry.written[0] >= oldest:
            return True
        youngest = max(asked[0] - self.ttl_s * 1000, self.expired[0]) - MARGIN_MS
        return None if entry.written[1] >= youngest else False

    def _matched(self, given: Sequence[tuple[bytes, bytes]]) -> dict[Entry, MessageId]:
        """Return the given entries; raise `Difference` for others, or another order."""
        by_payload = {entry.payload: index for index, entry in enumerate(self.entries)}
        found: dict[Entry, MessageId] = {}
        before = -1
        for message_id, payload in given:
            index = by_payload.get(payload)
            if index is None or self.entries[index].is_gone:
                raise Difference(f"{self.name}: {payload!r} is nobody's, or came back")
            if index <= before:
                raise Difference(f"{self.name}: {payload!r} is not in order")
            before = index
            found[self.entries[index]] = MessageId.decode(message_id)
        return found

    def check_all(self, given: Sequence[tuple[bytes, bytes]], asked: Window) -> None:
        """Check the messages that a reader without a transaction got, and learn from them."""
        found = self._matched(given)
        for entry, parts in found.items():
            entry.of.is_sure = True
            written_ms = min(parts.publish_timestamp, parts.write_timestamp or 2**63)
            low, high = entry.written
            if not low - MARGIN_MS <= written_ms <= high + MARGIN_MS:
                raise Difference(f"{self.name}: {entry.payload!r} has the time {written_ms}")
            entry.written = (written_ms, written_ms)
            tx = entry.of.tx
            if tx is not None and tx.id is None:
                tx.fate = Fate.COMMITTED  # published and committed at once
        too_many = self._too_many()
        for index, entry in enumerate(self.entries):
            live = self._is_live(entry, asked)
            if entry in found and live is False:
                raise Difference(f"{self.name}: {entry.payload!r} has expired, and was given")
            if entry not in found:
                may_be_trimmed = index < too_many and not _is_open(entry.of.tx, asked)
                if live and entry.of.is_sure and not (entry.is_gone or may_be_trimmed):
                    fate = None if entry.of.tx is None else entry.of.tx.fate
                    where = f"{index} of {len(self.entries)}, of which {too_many} may go"
                    raise Difference(f"{self.name}: {entry.payload!r} is lost ({where}; {fate})")
                entry.is_gone = True
        self.entries = [entry for entry in self.entries if not self._is_past(entry, asked)]

    def surely_committed(self, entries: Sequence[Entry], asked: Window) -> list[bytes]:
        """Return those of the payloads that committed readers surely got all the time."""
        return [
            each.payload
            for each in entries
            if self._is_live(each, asked)
            and each.of.is_sure
            and not each.is_gone
            and (each.of.tx is None or each.of.tx.fate is Fate.COMMITTED)
        ]

    def _too_many(self) -> int:
        """Return how many entries are before the last ones that the bound keeps."""
        if self.bound is None:
            return 0
        left = self.bound
        for index in range(len(self.entries) - 1, -1, -1):
            tx = self.entries[index].of.tx
            if left == 0:
                return index + 1
            left -= tx is None or tx.fate in (Fate.COMMITTED, Fate.UNKNOWN)
        return 0

    def _is_past(self, entry: Entry, asked: Window) -> bool:
        """Whether an entry no longer matters: it would be reported as unknown."""
        return entry.is_gone and entry.written[1] < asked[0] - 60_000

    def check_committed(self, given: Sequence[tuple[bytes, bytes]], asked: Window) -> None:
        """Check the messages that a committed reader got."""
        found = self._matched(given)
        may_stop = must_stop = False
        too_many = self._too_many()
        for index, entry in enumerate(self.entries):
            tx = entry.of.tx
            fate = Fate.COMMITTED if tx is None else tx.fate
            live = self._is_live(entry, asked)
            if entry in found:
                if fate in (Fate.DEAD, Fate.OPEN) or must_stop or live is False:
                    raise Difference(f"{self.name}: {entry.payload!r} is given, and must not be")
                if tx is not None:
                    tx.fate = Fate.COMMITTED
            elif fate is Fate.COMMITTED:
                may_be_trimmed = index < too_many
                if live and entry.of.is_sure and not (entry.is_gone or may_stop or may_be_trimmed):
                    raise Difference(f"{self.name}: {entry.payload!r} is committed, and lost")
            elif fate is not Fate.DEAD and live is not False and not entry.is_gone:
                may_stop = True
                must_stop = must_stop or bool(live and entry.of.is_sure and _is_open(tx, asked))
