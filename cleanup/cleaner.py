"""One pass over all tables: what has expired, what was deleted, what is invalid.

A pass is a run of steps (`cleanup.ranges.Step`), with a pause between them where others have to do
(`cleanup.runner`). Broken off anywhere, and begun anew in another process, it comes to the same:
what it has done is gone from the tables, and bounds are recorded when they are reached.

The row of a deleted topic is deleted last. Created again after that, the topic begins with
generation 1 and with the clock's time, which is kept above its last message by the store's mark. So
nothing of it may be left, the topic must have been deleted for a while, in which a publish under
way has ended, and its last message must be older than a grace, for what comes late.

Deleted topics are done a page at a time, so that many cost few calls of the store and the services.
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TypeVar

from cleanup.expiry import (
    ALL_PAYLOADS_MS,
    drop_dead_generations,
    expire_messages,
    expire_payloads,
    written_ms,
)
from cleanup.fates import ended_up_to
from cleanup.invalid import InvalidSweep
from cleanup.loop_calls import ServiceCalls
from cleanup.ranges import Budget, Drop, Reason, RowRange, Step, drop_ranges
from cleanup.topic_rules import TopicRules
from cleanup.topics import Known, KnownTopics, Wait
from tables.keys import FIRST_GENERATION, after_prefix, payload_prefix, prefix
from tables.store import MESSAGE, METADATA, PAYLOAD, Store
from tms.core.errors import StoreCorrupt
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.clock import Clock
from tms.core.values.message import KEY

_OLD_MS = 60_000
"""After so long, what was under way when a topic was deleted has ended."""
_GIVEN_BACK_BYTES_MIN = 1024 * 1024
"""Room that is worth giving back; LevelDB merges what is less by itself, some time."""
_TOPICS_A_STEP = 100
_FORGOTTEN_AT_ONCE = 100
"""Topics whose rows are deleted together; no topic is changed meanwhile."""
_MINUTE_MS = 60_000
"""Topics that may go within the same minute wait for its end."""

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Cleaner:
    """Cleans the tables of one store. Used from one thread."""

    def __init__(
        self,
        store: Store,
        services: ServiceCalls,
        limits: Limits,
        clock: Clock,
        *,
        inverts_invalid: bool = True,
        rules: TopicRules | None = None,
    ) -> None:
        """Clean `store`, beside the services that use it, and have topics obey `rules`."""
        self._store = store
        self._services = services
        self._clock = clock
        budget = Budget(limits.cleanup_slice_rows, limits.cleanup_slice_ms)
        self._drop: Drop = partial(drop_ranges, store, budget)
        self._limits = limits
        self._grace_ms = limits.cleanup_grace_s * MS_PER_S
        self._topics = KnownTopics(store, clock, services.unchanging)
        self._invalid = InvalidSweep(store, services, limits, clock) if inverts_invalid else None
        self._rules = rules

    def steps(self, *, is_asked: bool = False) -> Iterator[Step]:
        """Do one pass, giving each step when it is done; `is_asked`: somebody waits for it.

        Raises `StoreUnavailable` and the other `Unavailable` errors; the next pass goes on. A topic
        whose rows are damaged is left alone, and logged.
        """
        if self._invalid is not None:
            yield from self._invalid.steps()
        if self._rules is not None:
            # Afterwards: what was just inverted is rolled back for compaction.
            self._rules.begin_pass(is_asked=is_asked)
        for page in self._topics.pages():
            yield from self._clean_dead([known for known in page if _has_dead(known)])
            for number, known in enumerate(page):
                if not number % _TOPICS_A_STEP:
                    yield Step(METADATA, Reason.GENERATION, scanned=_TOPICS_A_STEP)
                if not known.topic.exists:
                    continue
                try:
                    yield from self._clean(known)
                except StoreCorrupt:
                    _log_damage(known)

    @property
    def topic_count(self) -> int:
        """How many topics it remembers something of."""
        return len(self._topics)

    def close(self) -> None:
        """Do nothing: the store is the server's."""

    def _clean(self, known: Known) -> Iterator[Step]:
        """Do what is due for one topic that exists."""
        topic, as_of_ms = known.topic, known.as_of_ms
        if as_of_ms >= known.messages_due_ms:
            expiry = expire_messages(self._store, topic, as_of_ms, self._drop)
            known.messages_due_ms = yield from _counted(known, expiry)
        steady_ms = self._clock.steady_ms()
        looks_at_all = steady_ms >= known.all_payloads_steady_ms
        if looks_at_all or as_of_ms >= known.payloads_due_ms:
            expiry = expire_payloads(
                self._store,
                topic,
                as_of_ms,
                partial(self._ended_up_to, as_of_ms),
                drop=self._drop,
                looks_at_all=looks_at_all,
            )
            known.payloads_due_ms = yield from _counted(known, expiry)
            if looks_at_all:
                known.all_payloads_steady_ms = steady_ms + ALL_PAYLOADS_MS
        yield from self._give_back(known)
        if self._rules is not None:
            yield from self._rules.steps(topic)

    def _ended_up_to(self, now_ms: int) -> int:
        """Return a pointer up to which nothing is written any more."""
        return ended_up_to(self._services.invalid_list(), self._limits, now_ms)

    def _clean_dead(self, topics: Sequence[Known]) -> Iterator[Step]:
        """Drop dead generations; where that is all of a deleted topic, forget it."""
        try:
            yield from self._drop_dead(topics)
        except StoreCorrupt:
            for known in topics:
                try:
                    yield from self._drop_dead([known])
                except StoreCorrupt:
                    _log_damage(known)

    def _drop_dead(self, topics: Sequence[Known]) -> Iterator[Step]:
        # Before rows are read: of an old one, all have come.
        old_since_ms = self._clock.steady_ms() - _OLD_MS
        found = [known.topic for known in topics]
        dead = yield from drop_dead_generations(self._store, found, self._drop)
        emptied: list[tuple[Known, bytes | None]] = []
        for known, rows in zip(topics, dead, strict=True):
            known.dropped_bytes += rows.dropped_bytes
            is_old = known.since_ms <= old_since_ms
            if known.topic.exists:
                known.is_clean = rows.kept is None and is_old
                continue
            yield from self._give_back(known)
            if is_old:
                emptied.append((known, rows.kept))
            else:
                known.wait = Wait(steady_ms=known.since_ms + _OLD_MS)
        yield from self._forget(emptied)

    def _forget(self, emptied: Sequence[tuple[Known, bytes | None]]) -> Iterator[Step]:
        """Delete the last rows of deleted topics, and then those of their metadata.

        If it is too early, a topic waits: nothing else of it is left, and nothing comes any more.
        """
        due: list[Known] = []
        last_rows: list[bytes] = []
        for known, greatest in emptied:
            due_ms = 0 if greatest is None else written_ms(greatest) + self._grace_ms
            if due_ms > self._clock.deletion_ms():
                known.wait = Wait(as_of_ms=-(-due_ms // _MINUTE_MS) * _MINUTE_MS)
                continue
            due.append(known)
            if greatest is not None:
                last_rows.append(greatest)
        if last_rows:
            # Created again, the topics begin by the clock, which may go back.
            self._services.keep_keys_from(max(map(written_ms, last_rows)) + 1)
            ranges = [RowRange(key, key + b"\x00") for key in last_rows]
            yield from self._drop(MESSAGE, ranges, reason=Reason.GENERATION)
        for first in range(0, len(due), _FORGOTTEN_AT_ONCE):
            some = due[first : first + _FORGOTTEN_AT_ONCE]
            forgotten = self._services.forget([known.topic for known in some])
            size = 0
            for known in some:
                known.is_forgotten = known.topic.id in forgotten
                if known.is_forgotten:
                    size += len(known.row)
                else:
                    known.wait = Wait(steady_ms=self._clock.steady_ms() + _OLD_MS)
            yield Step(METADATA, Reason.GENERATION, dropped=len(forgotten), dropped_bytes=size)

    def _give_back(self, known: Known) -> Iterator[Step]:
        """Give back the room of what was dropped, where that is worth it."""
        if known.dropped_bytes < _GIVEN_BACK_BYTES_MIN:
            return
        known.dropped_bytes = 0
        topic = known.topic
        start = prefix(topic.id, FIRST_GENERATION)
        current = prefix(topic.id, abs(topic.generation))
        stops = {MESSAGE: after_prefix(current), PAYLOAD: after_prefix(current)}
        if topic.exists:
            live_ms = topic.first_live_ms(known.as_of_ms)
            stops[MESSAGE] = current + KEY.pack(live_ms, 0)
            stops[PAYLOAD] = payload_prefix(current, live_ms * WRITE_POINTERS_PER_MS)
        for table, stop in stops.items():
            self._store.compact(table, start, stop)
            yield Step(table, Reason.GENERATION)


def _has_dead(known: Known) -> bool:
    """Whether there may be rows of dead generations."""
    return not known.is_clean and known.topic.generation != FIRST_GENERATION


def _log_damage(known: Known) -> None:
    _log.exception("cannot clean up the topic %s", known.topic.id)


def _counted(known: Known, steps: Generator[Step, None, Result]) -> Generator[Step, None, Result]:
    """Give `steps` on, counting what they drop; return what they return."""
    while True:
        try:
            step = next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
        known.dropped_bytes += step.dropped_bytes
        yield step
