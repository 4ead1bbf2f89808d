"""The worker of one region: what has expired, was deleted or is invalid, topic by topic.

It looks at the rows of the region's topics alone, by the cached metadata of the topics, in the
order of the rows; rows of unknown topics stay. It remembers until when a part has nothing to do, as
long as the topic's row and the region's bounds stay as they are. Nothing is changed but what no
reader can see; what is invalid is only found here, for inversions are the services' business
(`cleanup.hbase.cleaner`). Broken off anywhere, `position` says from which row on to do the rest.
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
"""After so long, what was under way when a topic was deleted has ended."""
_LOOK_AGAIN_MS = 3_600_000
"""How often a part is looked at for rows of dead generations, or sealed, where none were left."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Due:
    """Until when a part of a topic has nothing to do."""

    row: bytes
    """The row of the topic when it was found."""
    expiry_ms: int = 0
    generations_steady_ms: int = 0
    sealed_steady_ms: int = 0
    all_payloads_steady_ms: int = 0


class Memory:
    """The facts about all parts that are remembered from one pass to the next."""

    def __init__(self) -> None:
        self._before: dict[Region, Due] = {}
        self._now: dict[Region, Due] = {}

    def begin_pass(self) -> None:
        """Forget what the pass before did not come across."""
        self._before, self._now = self._now, {}

    def of(self, part: RegionPart) -> Due:
        """Return what is remembered of a part, empty where its topic has changed."""
        due = self._before.get(part.region)
        if due is None or due.row != part.known.row:
            due = Due(part.known.row)
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
    """Rows deleted with one write."""


class Worker:
    """Cleans up one region, or what is left of one."""

    def __init__(
        self,
        work: WorkerContext,
        region: Region,
        pointers: Collection[int],
        from_ms: int,
        listed: InvalidList | None,
    ) -> None:
        """Find what is under `pointers` too, which are invalid, and not of before `from_ms`.

        `listed` is the invalid list as it was asked for, None if transactions are not managed here.
        """
        self.region = region
        self.position = region.start
        """Before this row, all is done."""
        self._work = work
        self._listed = listed
        self.is_whole = True
        """Whether no topic was left out, so that all under the pointers was found."""
        is_searched = bool(pointers) and region.table == MESSAGE
        self._search = Search(work.store, pointers, from_ms) if is_searched else None

    @property
    def left(self) -> Region:
        """The part that is not done yet."""
        return Region(self.region.table, self.position, self.region.stop)

    def steps(self) -> Generator[Step | InvalidRows, None, None]:
        """Do the region, giving each step when it is done. Raises the `Unavailable` errors.

        A topic whose rows are damaged is left alone, and logged.
        """
        for part in self._work.topics.parts(self.region):
            self.position = part.region.start
            topic_id = part.known.topic.id
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
        """Do what is due for a part of a topic."""
        work, topic = self._work, part.known.topic
        due = work.memory.of(part)
        drop = PartDrop(work.store, part, work.rows_max)
        steady_ms = work.clock.steady_ms()
        if steady_ms >= due.generations_steady_ms:
            [dead] = yield from drop_dead_generations(work.store, [topic], drop)
            is_old = steady_ms - part.known.since_ms >= _OLD_MS
            if dead.kept is None and is_old:
                due.generations_steady_ms = steady_ms + _LOOK_AGAIN_MS
        if not topic.exists:
            return
        if part.region.table == MESSAGE and steady_ms >= due.sealed_steady_ms:
            yield from drop_sealed(topic, seal_of(part.known.row), drop)
            # Once more after a while: there is no saying how late something comes.
            due.sealed_steady_ms = steady_ms + _LOOK_AGAIN_MS
        if part.region.table == MESSAGE:
            if part.known.as_of_ms >= due.expiry_ms:
                expiry = expire_messages(work.store, topic, part.known.as_of_ms, drop)
                due.expiry_ms = yield from expiry
        else:
            yield from self._expire_payloads(part, drop, due)
        if self._search is not None:
            yield from self._search.steps(part)

    def _expire_payloads(self, part: RegionPart, drop: PartDrop, due: Due) -> Iterator[Step]:
        """Drop what has expired of stored payloads, if it is time."""
        work, as_of_ms = self._work, part.known.as_of_ms
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
