"""One pass over all tables: deletes expired and deleted rows, and inverts invalid entries.

A pass is a sequence of steps (`cleanup.ranges.Step`), with a pause between them while the server is
busy (`cleanup.runner`). A pass that is interrupted anywhere, and begun again in another process,
has the same result: finished work is in the tables, and bounds are recorded when they are reached.

The row of a deleted topic is deleted last. A topic created again after that begins with generation
1 and with the clock's time, which the store's mark keeps above the last message. So the row goes
only when no other row of the topic remains, when the topic was deleted long enough ago for any
publish to have ended, and when its last message is older than a grace period for late writes.

Deleted topics are processed a page at a time, so that many of them need few calls of the store and
the services.
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
from cleanup.topics import KnownTopics, RememberedTopic, Wait
from tables.keys import FIRST_GENERATION, after_prefix, payload_prefix, prefix
from tables.store import MESSAGE, METADATA, PAYLOAD, Store
from tms.core.errors import StoreCorrupt
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.clock import Clock
from tms.core.values.message import KEY

_OLD_MS = 60_000
"""After this time, every call in progress when a topic was deleted has ended."""
_GIVEN_BACK_BYTES_MIN = 1024 * 1024
"""The least room worth freeing; LevelDB merges less by itself, some time."""
_TOPICS_A_STEP = 100
_FORGOTTEN_AT_ONCE = 100
"""Topics whose rows are deleted together; no topic may change in the meantime."""
_MINUTE_MS = 60_000
"""Topics whose rows may go within the same minute wait for its end."""

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
        """Clean `store` while `services` use it, and apply `rules` to topics."""
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

    def steps(self, *, is_on_demand: bool = False) -> Iterator[Step]:
        """Do one pass, yielding each step when it is done; `is_on_demand`: somebody waits for it.

        Raises `StoreUnavailable` and the other `Unavailable` errors; the next pass continues. A
        topic with damaged rows is skipped and logged.
        """
        if self._invalid is not None:
            yield from self._invalid.steps()
        if self._rules is not None:
            # After the inversions, so that compaction sees them as rolled back.
            self._rules.begin_pass(is_on_demand=is_on_demand)
        for page in self._topics.pages():
            yield from self._clean_dead(
                [remembered for remembered in page if _has_dead(remembered)]
            )
            for number, remembered in enumerate(page):
                if not number % _TOPICS_A_STEP:
                    yield Step(METADATA, Reason.GENERATION, scanned=_TOPICS_A_STEP)
                if not remembered.topic.exists:
                    continue
                try:
                    yield from self._clean(remembered)
                except StoreCorrupt:
                    _log_damage(remembered)

    @property
    def topic_count(self) -> int:
        """The number of topics it remembers."""
        return len(self._topics)

    def close(self) -> None:
        """Do nothing: the store is the server's."""

    def _clean(self, remembered: RememberedTopic) -> Iterator[Step]:
        """Do the work that is due for one existing topic."""
        topic, as_of_ms = remembered.topic, remembered.as_of_ms
        if as_of_ms >= remembered.messages_due_ms:
            expiry = expire_messages(self._store, topic, as_of_ms, self._drop)
            remembered.messages_due_ms = yield from _counted(remembered, expiry)
        steady_ms = self._clock.steady_ms()
        looks_at_all = steady_ms >= remembered.all_payloads_steady_ms
        if looks_at_all or as_of_ms >= remembered.payloads_due_ms:
            expiry = expire_payloads(
                self._store,
                topic,
                as_of_ms,
                partial(self._ended_up_to, as_of_ms),
                drop=self._drop,
                looks_at_all=looks_at_all,
            )
            remembered.payloads_due_ms = yield from _counted(remembered, expiry)
            if looks_at_all:
                remembered.all_payloads_steady_ms = steady_ms + ALL_PAYLOADS_MS
        yield from self._give_back(remembered)
        if self._rules is not None:
            yield from self._rules.steps(topic)

    def _ended_up_to(self, now_ms: int) -> int:
        """Return a pointer up to which no transaction writes any more."""
        return ended_up_to(self._services.invalid_list(), self._limits, now_ms)

    def _clean_dead(self, topics: Sequence[RememberedTopic]) -> Iterator[Step]:
        """Drop dead generations; forget deleted topics of which nothing else remains."""
        try:
            yield from self._drop_dead(topics)
        except StoreCorrupt:
            for remembered in topics:
                try:
                    yield from self._drop_dead([remembered])
                except StoreCorrupt:
                    _log_damage(remembered)

    def _drop_dead(self, topics: Sequence[RememberedTopic]) -> Iterator[Step]:
        # The time is taken before rows are read: all rows of an old topic have been written.
        old_since_ms = self._clock.steady_ms() - _OLD_MS
        metadata = [remembered.topic for remembered in topics]
        dead = yield from drop_dead_generations(self._store, metadata, self._drop)
        emptied: list[tuple[RememberedTopic, bytes | None]] = []
        for remembered, rows in zip(topics, dead, strict=True):
            remembered.dropped_bytes += rows.dropped_bytes
            is_old = remembered.since_ms <= old_since_ms
            if remembered.topic.exists:
                remembered.is_clean = rows.kept is None and is_old
                continue
            yield from self._give_back(remembered)
            if is_old:
                emptied.append((remembered, rows.kept))
            else:
                remembered.wait = Wait(steady_ms=remembered.since_ms + _OLD_MS)
        yield from self._forget(emptied)

    def _forget(self, emptied: Sequence[tuple[RememberedTopic, bytes | None]]) -> Iterator[Step]:
        """Delete the last rows of deleted topics, and then their metadata rows.

        If it is too early, a topic waits: it has no other rows, and gets no more.
        """
        due: list[RememberedTopic] = []
        last_rows: list[bytes] = []
        for remembered, greatest in emptied:
            due_ms = 0 if greatest is None else written_ms(greatest) + self._grace_ms
            if due_ms > self._clock.deletion_ms():
                remembered.wait = Wait(as_of_ms=-(-due_ms // _MINUTE_MS) * _MINUTE_MS)
                continue
            due.append(remembered)
            if greatest is not None:
                last_rows.append(greatest)
        if last_rows:
            # If the topics are created again, they begin with the clock's time, which may go back.
            self._services.keep_keys_from(max(map(written_ms, last_rows)) + 1)
            ranges = [RowRange(key, key + b"\x00") for key in last_rows]
            yield from self._drop(MESSAGE, ranges, reason=Reason.GENERATION)
        for first in range(0, len(due), _FORGOTTEN_AT_ONCE):
            some = due[first : first + _FORGOTTEN_AT_ONCE]
            forgotten = self._services.forget([remembered.topic for remembered in some])
            size = 0
            for remembered in some:
                remembered.is_forgotten = remembered.topic.id in forgotten
                if remembered.is_forgotten:
                    size += len(remembered.row)
                else:
                    remembered.wait = Wait(steady_ms=self._clock.steady_ms() + _OLD_MS)
            yield Step(METADATA, Reason.GENERATION, dropped=len(forgotten), dropped_bytes=size)

    def _give_back(self, remembered: RememberedTopic) -> Iterator[Step]:
        """Free the room of dropped rows, if that is worth it."""
        if remembered.dropped_bytes < _GIVEN_BACK_BYTES_MIN:
            return
        remembered.dropped_bytes = 0
        topic = remembered.topic
        start = prefix(topic.id, FIRST_GENERATION)
        current = prefix(topic.id, abs(topic.generation))
        stops = {MESSAGE: after_prefix(current), PAYLOAD: after_prefix(current)}
        if topic.exists:
            live_ms = topic.first_live_ms(remembered.as_of_ms)
            stops[MESSAGE] = current + KEY.pack(live_ms, 0)
            stops[PAYLOAD] = payload_prefix(current, live_ms * WRITE_POINTERS_PER_MS)
        for table, stop in stops.items():
            self._store.compact(table, start, stop)
            yield Step(table, Reason.GENERATION)


def _has_dead(remembered: RememberedTopic) -> bool:
    """Whether there may be rows of dead generations."""
    return not remembered.is_clean and remembered.topic.generation != FIRST_GENERATION


def _log_damage(remembered: RememberedTopic) -> None:
    _log.exception("cannot clean up the topic %s", remembered.topic.id)


def _counted(
    remembered: RememberedTopic, steps: Generator[Step, None, Result]
) -> Generator[Step, None, Result]:
    """Pass on `steps`, counting dropped bytes; return their result."""
    while True:
        try:
            step = next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
        remembered.dropped_bytes += step.dropped_bytes
        yield step
