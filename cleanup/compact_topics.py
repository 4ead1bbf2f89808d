"""Compacts topics: decides when that is worth it, and deletes what `cleanup.compaction` selects.

A topic is compacted when at least half of its entries are new, when the transactions that held it
up have ended, when a tombstone may go, or on demand. Each pass counts new entries. The count is
lost with the process, so the first pass of a process compacts once.

Only the process that serves a topic does this. Only durable entries supersede others, and the cache
forgets entries before they are deleted. A run may be interrupted anywhere: a key's older entries
are deleted before its tombstone, in the store's order, and the next run continues. A process that
no longer leads does no harm: the entries that supersede others were acknowledged.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from time import perf_counter, sleep

from cleanup.compaction import Sweep, Verdict
from cleanup.fates import Fate, Fates, FatesNow
from cleanup.loop_calls import TopicCalls
from cleanup.ranges import ROWS_COUNTED, Reason, Step, last_key
from tables.keys import after_prefix, message_key_of, prefix
from tables.store import MESSAGE, Store
from tms.core.limits import MS_PER_S, Limits
from tms.core.runtime.clock import Clock
from tms.core.values.entries import PLAIN
from tms.core.values.message import key_after
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import tombstone_s_of

_LATE_S = 600
"""On a remote store, a write may come late: a tombstone stays at least this long."""
_GIVEN_BACK_BYTES_MIN = 1024 * 1024
_GIVEN_BACK_BYTES = 64 * 1024 * 1024
"""The room of this many bytes is freed at a time, which may take a second."""
_PAUSE_FACTOR = 9
"""A search for rows that only wait to become old takes at most a tenth of the time."""
_ASK_AGAIN_S = 0.1
_ROWS_BETWEEN_LOOKS = 100
"""Rows decided on before other threads run: less than half a millisecond."""

_REASONS = {Verdict.SUPERSEDED: Reason.SUPERSEDED, Verdict.ROLLED_BACK: Reason.ROLLED_BACK}


@dataclass(slots=True)
class _Progress:
    """The progress of a topic's generation since its last compaction."""

    generation: int
    counted_to: bytes
    """The key at which new entries begin."""
    new: int = 0
    """Entries since the last compaction."""
    clean: int = 0
    """Entries that are fully compacted."""
    held: int = 0
    """Entries from the least undecided one on."""
    undecided_pointer: int = PLAIN
    waiting_ms: int | None = None
    """The time of the oldest entry that goes once it is old."""
    not_before_ms: int = 0
    """The earliest steady time at which to look for those again."""

    def is_due(self, fates: FatesNow, old_ms: int, steady_ms: int, *, is_on_demand: bool) -> bool:
        """Whether to compact now."""
        is_old = self.waiting_ms is not None and self.waiting_ms < old_ms
        if is_on_demand and (self.new or self.held or is_old):
            return True
        if (self.new and self.new >= self.clean) or (is_old and steady_ms >= self.not_before_ms):
            return True
        is_held = self.undecided_pointer != PLAIN and self.new + self.held >= self.clean
        return is_held and fates().of(self.undecided_pointer) is not Fate.UNDECIDED


@dataclass(slots=True)
class _Run:
    """A run over one topic, and its counts."""

    topic: TopicMetadata
    start: bytes
    greatest: bytes
    old_ms: int
    rows: int = 0
    held: int = 0
    dropped: int = 0
    dropped_bytes: int = 0
    waiting_ms: int | None = None
    undecided_pointer: int = PLAIN

    forgotten_up_to: bytes = b""
    """The greatest row that the cache has forgotten for its deletion."""
    confirmed_s: float = 0.0
    """When the services last confirmed that the topic is compact."""

    cuts: list[bytes] = field(default_factory=list)
    """Row keys with about `_GIVEN_BACK_BYTES` of dropped rows between them."""

    def has_dropped(self, keys: Sequence[bytes], size: int) -> None:
        """Count deleted rows."""
        self.dropped += len(keys)
        self.dropped_bytes += size
        if self.dropped_bytes >= (len(self.cuts) + 1) * _GIVEN_BACK_BYTES:
            self.cuts.append(keys[-1])

    def must_call(self, key: bytes) -> bool:
        """Whether to call the services before deleting `key`: if it is greater, or after a time."""
        now_s = perf_counter()
        if key <= self.forgotten_up_to and now_s - self.confirmed_s < _ASK_AGAIN_S:
            return False
        self.forgotten_up_to, self.confirmed_s = max(key, self.forgotten_up_to), now_s
        return True

    def took(self, sweep: Sweep) -> None:
        """Take over the results of a sweep."""
        waiting = [ms for ms in (self.waiting_ms, sweep.waiting_ms) if ms is not None]
        self.waiting_ms = min(waiting, default=None)
        self.undecided_pointer = sweep.undecided_pointer or self.undecided_pointer


@dataclass(slots=True)
class _Look:
    """The result of one look at some rows."""

    stop: bytes
    """The least row key that was read."""
    scanned: int = 0
    held: int | None = None
    """The number of rows up to the last undecided one; None if there was none."""
    is_done: bool = False
    """Whether no rows remain."""
    dropped: dict[Verdict, list[tuple[bytes, int]]] = field(
        default_factory=lambda: {each: [] for each in _REASONS}
    )
    """Row keys, and the lengths of their values."""

    def going(self) -> Iterator[tuple[Verdict, list[tuple[bytes, int]]]]:
        """Yield the rows to delete now, by verdict.

        The least row stays for the next look: to find its place, LevelDB steps upwards over deleted
        rows to one that exists.
        """
        for verdict, rows in self.dropped.items():
            is_least = not self.is_done and bool(rows) and rows[-1][0] == self.stop
            yield verdict, rows[:-1] if is_least else rows

    def next(self) -> "_Look":
        """Return the start of the next look."""
        following = _Look(self.stop)
        for verdict, rows in self.dropped.items():
            if not self.is_done and rows and rows[-1][0] == self.stop:
                following.dropped[verdict].append(rows[-1])
        return following


class CompactTopics:
    """Compacts the topics of one store. Used from one thread."""

    def __init__(self, store: Store, calls: TopicCalls, limits: Limits, clock: Clock) -> None:
        """Compact in `store`, which the services behind `calls` use."""
        self._store = store
        self._calls = calls
        self._clock = clock
        self._rows_max = limits.cleanup_slice_rows
        # In a remote store, waiting for rows blocks no other work, and opening a scan costs more.
        self._slice_s = limits.cleanup_slice_ms / MS_PER_S if store.is_embedded else inf
        self._keys_max = limits.cleanup_keys_max
        self._least_s = 0 if store.is_embedded else _LATE_S
        self._before: dict[TopicId, _Progress] = {}
        self._now: dict[TopicId, _Progress] = {}

    def begin_pass(self) -> None:
        """Forget topics that the last pass did not meet."""
        self._before, self._now = self._now, {}

    def steps(
        self, topic: TopicMetadata, fates: FatesNow, *, is_on_demand: bool
    ) -> Generator[Step, None, bool]:
        """Compact a topic if that is due, yielding each step; return whether any entry is gone.

        Raises the `Unavailable` errors, `StoreCorrupt`; the next pass continues.
        """
        progress = self._before.get(topic.id)
        start = prefix(topic.id, topic.generation)
        old_ms = self._clock.deletion_ms() - self._tombstone_ms(topic)
        if progress is None or progress.generation != topic.generation:
            progress = _Progress(topic.generation, start)
            is_due = True
        else:
            yield from self._count(progress, after_prefix(start))
            steady_ms = self._clock.steady_ms()
            is_due = progress.is_due(fates, old_ms, steady_ms, is_on_demand=is_on_demand)
        self._now[topic.id] = progress
        written = self._calls.written(topic) if is_due else None
        if written is None:
            return False
        greatest = last_key(self._store, MESSAGE, start, start + written.end)
        if greatest is None:
            return False
        run = _Run(topic, start, greatest, old_ms)
        began_ms = self._clock.steady_ms()
        is_whole = yield from self._run(run, fates())
        if is_whole:
            took_ms = self._clock.steady_ms() - began_ms
            self._now[topic.id] = _Progress(
                topic.generation,
                counted_to=greatest + b"\x00",
                clean=max(0, run.rows - run.dropped - run.held),
                held=run.held,
                undecided_pointer=run.undecided_pointer,
                waiting_ms=run.waiting_ms,
                not_before_ms=began_ms + (1 + _PAUSE_FACTOR) * took_ms,
            )
        return run.dropped > 0

    def _tombstone_ms(self, topic: TopicMetadata) -> int:
        return max(tombstone_s_of(topic.properties), self._least_s) * MS_PER_S

    def _count(self, progress: _Progress, stop: bytes) -> Generator[Step, None, None]:
        """Count the entries since the last time."""
        rows_max = min(self._rows_max, ROWS_COUNTED)
        while True:
            with self._store.scan(MESSAGE, progress.counted_to, stop, limit=rows_max) as scanned:
                keys = [key for key, _ in scanned]
            if keys:
                progress.new += len(keys)
                progress.counted_to = keys[-1] + b"\x00"
            yield Step(MESSAGE, Reason.SUPERSEDED, scanned=max(1, len(keys)))
            if len(keys) < rows_max:
                return

    def _run(self, run: _Run, fates: Fates) -> Generator[Step, None, bool]:
        """Compact a topic; return False if it is gone, or no longer compact."""
        at: bytes | None = run.greatest + b"\x00"
        is_first = True
        while at is not None:
            sweep = Sweep(fates, run.old_ms, self._keys_max, run.greatest)
            if not (yield from self._sweep(run, sweep, at, is_first=is_first)):
                return False
            run.took(sweep)
            at = None if sweep.resume is None else sweep.resume + b"\x00"
            is_first = False
        yield from self._give_back(run)
        return True

    def _give_back(self, run: _Run) -> Generator[Step, None, None]:
        """Free the room of dropped rows, if that is worth it, a part at a time."""
        if run.dropped_bytes < _GIVEN_BACK_BYTES_MIN:
            return
        cuts = sorted({run.start, *run.cuts, after_prefix(run.start)})
        for first, stop in pairwise(cuts):
            self._store.compact(MESSAGE, first, stop)
            yield Step(MESSAGE, Reason.SUPERSEDED)

    def _sweep(
        self, run: _Run, sweep: Sweep, stop: bytes, *, is_first: bool
    ) -> Generator[Step, None, bool]:
        """Go once through the rows below `stop`; return as `_run` does."""
        look = _Look(stop)
        while not look.is_done:
            look = self._look(run, sweep, look)
            if is_first:
                if look.held is not None:
                    run.held = run.rows - run.dropped + look.held
                run.rows += look.scanned
            yield Step(MESSAGE, Reason.SUPERSEDED, scanned=max(1, look.scanned))
            for verdict, rows in look.going():
                if rows and not (yield from self._drop(run, rows, _REASONS[verdict])):
                    return False
        for first in range(0, len(sweep.tombstones), self._rows_max):
            rows = [(key, 0) for key in sweep.tombstones[first : first + self._rows_max]]
            if not (yield from self._drop(run, rows, Reason.TOMBSTONE)):
                return False
        return True

    def _look(self, run: _Run, sweep: Sweep, before: _Look) -> _Look:
        """Decide with `sweep` on the next rows downwards, below those of the look before."""
        stop, look = before.stop, before.next()
        superseded = look.dropped[Verdict.SUPERSEDED]
        rolled_back = look.dropped[Verdict.ROLLED_BACK]
        until = perf_counter() + self._slice_s
        with self._store.scan(MESSAGE, run.start, stop, reverse=True, limit=self._rows_max) as rows:
            for key, value in rows:
                verdict = sweep.verdict(key, value)
                look.stop = key
                look.scanned += 1
                if verdict is Verdict.SUPERSEDED:
                    superseded.append((key, len(value)))
                elif verdict is Verdict.ROLLED_BACK:
                    rolled_back.append((key, len(value)))
                elif sweep.undecided == key:
                    look.held = look.scanned
                if look.scanned % _ROWS_BETWEEN_LOOKS:
                    continue
                sleep(0)  # releases Python's lock
                if perf_counter() >= until:
                    return look
        look.is_done = look.scanned < self._rows_max
        return look

    def _drop(
        self, run: _Run, rows: list[tuple[bytes, int]], reason: Reason
    ) -> Generator[Step, None, bool]:
        """Delete entries, each a row key and the length of its value; return as `_run` does."""
        keys = [key for key, _ in rows]
        size = sum(len(key) + length for key, length in rows)
        if run.must_call(max(keys)):
            below = key_after(message_key_of(run.forgotten_up_to))
            if not self._calls.forget_cached(run.topic, below):
                return False
        batch = self._store.batch(durable=False)
        batch.delete_rows(MESSAGE, keys)
        self._store.write(batch)
        run.has_dropped(keys, size)
        yield Step(MESSAGE, reason, scanned=0, dropped=len(keys), dropped_bytes=size)
        return True
