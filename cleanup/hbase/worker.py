"""The worker of one region: processes expired, deleted and invalid rows, topic by topic.

It reads only rows of topics in the cache, in the order of the rows; rows of unknown topics stay. It
remembers until when a part needs no work, as long as the topic's row and the region's bounds stay
the same. It changes only rows that no reader can see. It only finds invalid entries, because the
services invert them (`cleanup.hbase.cleaner`). After an interruption, `position` says from which
row on to continue.
"""

import logging
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass

from cleanup.expiry import (
    ALL_PAYLOADS_MS,
    drop_dead_generations,
    drop_sealed,
    expire_messages,
)
from cleanup.fates import ended_up_to
from cleanup.hbase.drops import PartDrop, TopicChanged
from cleanup.hbase.parts import CachedTopics, RegionPart
from cleanup.hbase.payloads import expire_payloads
from cleanup.hbase.search import InvalidRows, Search
from cleanup.ranges import Step
from tables.hbase.regions import Region
from tables.hbase.store import HBaseStore
from tables.sealing.seal import seal_of
from tables.store import MESSAGE
from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.runtime.clock import Clock
from tms.transactions.pruning import InvalidList

_OLD_MS = 60_000
"""After this time, every call in progress when a topic was deleted has ended."""
_LOOK_AGAIN_MS = 3_600_000
"""How often a part without dead generations and sealed rows is searched for them again."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Due:
    """The time until which a part of a topic needs no work."""

    row: bytes
    """The row of the topic when this was found out."""
    expiry_ms: int = 0
    generations_steady_ms: int = 0
    sealed_steady_ms: int = 0
    all_payloads_steady_ms: int = 0


class Memory:
    """The memory of all parts from one pass to the next."""

    def __init__(self) -> None:
        self._before: dict[Region, Due] = {}
        self._now: dict[Region, Due] = {}

    def begin_pass(self) -> None:
        """Forget parts that the last pass did not meet."""
        self._before, self._now = self._now, {}

    def of(self, part: RegionPart) -> Due:
        """Return what is remembered of a part; empty if its topic has changed."""
        due = self._before.get(part.region)
        if due is None or due.row != part.remembered.row:
            due = Due(part.remembered.row)
        self._now[part.region] = due
        return due


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The shared context of the workers of one store."""

    store: HBaseStore
    topics: CachedTopics
    memory: Memory
    limits: Limits
    clock: Clock
    rows_max: int
    """The number of rows deleted with one write."""


class Worker:
    """Cleans up one region, or the rest of one."""

    def __init__(
        self,
        work: WorkerContext,
        region: Region,
        pointers: Collection[int],
        from_ms: int,
        listed: InvalidList | None,
    ) -> None:
        """Also find entries under the invalid `pointers`, which are not from before `from_ms`.

        `listed` is the invalid list as read, None if transactions are managed elsewhere.
        """
        self.region = region
        self.position = region.start
        """All rows before this one are done."""
        self._work = work
        self._listed = listed
        self.is_whole = True
        """Whether no topic was skipped, so that all entries under the pointers were found."""
        is_searched = bool(pointers) and region.table == MESSAGE
        self._search = Search(work.store, pointers, from_ms) if is_searched else None

    @property
    def rest(self) -> Region:
        """The rest of the region."""
        return Region(self.region.table, self.position, self.region.stop)

    def steps(self) -> Generator[Step | InvalidRows, None, None]:
        """Do the region, yielding each step when it is done. Raises the `Unavailable` errors.

        A topic with damaged rows is skipped and logged.
        """
        for part in self._work.topics.parts(self.region):
            self.position = part.region.start
            topic_id = part.remembered.topic.id
            try:
                yield from self._clean(part)
            except TopicChanged:
                self.is_whole = False
                _log.info("the topic %s has changed; the next pass continues", topic_id)
            except StoreCorrupt:
                self.is_whole = False
                _log.exception("cannot clean up the topic %s", topic_id)
        self.position = self.region.stop

    def _clean(self, part: RegionPart) -> Iterator[Step | InvalidRows]:
        """Do the work that is due for a part of a topic."""
        work, topic = self._work, part.remembered.topic
        due = work.memory.of(part)
        drop = PartDrop(work.store, part, work.rows_max)
        steady_ms = work.clock.steady_ms()
        if steady_ms >= due.generations_steady_ms:
            [dead] = yield from drop_dead_generations(work.store, [topic], drop)
            is_old = steady_ms - part.remembered.since_ms >= _OLD_MS
            if dead.kept is None and is_old:
                due.generations_steady_ms = steady_ms + _LOOK_AGAIN_MS
        if not topic.exists:
            return
        if part.region.table == MESSAGE and steady_ms >= due.sealed_steady_ms:
            yield from drop_sealed(topic, seal_of(part.remembered.row), drop)
            # Once more after a while, because rows may arrive arbitrarily late.
            due.sealed_steady_ms = steady_ms + _LOOK_AGAIN_MS
        if part.region.table == MESSAGE:
            if part.remembered.as_of_ms >= due.expiry_ms:
                expiry = expire_messages(work.store, topic, part.remembered.as_of_ms, drop)
                due.expiry_ms = yield from expiry
        else:
            yield from self._expire_payloads(part, drop, due)
        if self._search is not None:
            yield from self._search.steps(part)

    def _expire_payloads(self, part: RegionPart, drop: PartDrop, due: Due) -> Iterator[Step]:
        """Drop expired stored payloads, if that is due."""
        work, as_of_ms = self._work, part.remembered.as_of_ms
        steady_ms = work.clock.steady_ms()
        looks_at_all = steady_ms >= due.all_payloads_steady_ms
        if not looks_at_all and as_of_ms < due.expiry_ms:
            return
        due.expiry_ms = yield from expire_payloads(
            work.store,
            part,
            as_of_ms,
            ended_up_to(self._listed, work.limits, as_of_ms),
            drop=drop,
            rows_max=work.rows_max,
            looks_at_all=looks_at_all,
        )
        if looks_at_all:
            due.all_payloads_steady_ms = steady_ms + ALL_PAYLOADS_MS
