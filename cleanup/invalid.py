"""Inverts the entries of invalid transactions, and takes finished ones off the invalid list.

1. The invalid list is read. A pointer that every snapshot in progress has as invalid may be
   inverted (`tms.transactions.pruning`), unless an earlier pass did so. Only then are the topics
   read. So they include every topic that an invalid transaction wrote to, in the generation that it
   wrote to, or that generation is dead.
2. This process knows what it published, and inverts it without a scan. Entries of an earlier
   process are searched in the topics, from the least time that they can have, which the
   transactions recorded when they began, to the end of each topic.
3. The bound is recorded: every invalid entry up to it is inverted. It is written in a batch made
   before anything was read, which a store refuses if a failed write was decided in the meantime
   (`tables.store`, 6), because this pass has not seen its rows. Only then does this process forget
   where it published under the finished pointers.
4. Pointers up to the bound that are older than the longest lifetime and a grace period are taken
   off the list. The bound is recorded before, so that no truncation relies on something that a
   crash undoes.

Inversions go through the service, which updates the cache before the table.
"""

from collections.abc import Collection, Container, Iterator
from itertools import islice

from cleanup.loop_calls import ServiceCalls
from cleanup.ranges import Budget, Reason, Step
from tables.keys import after_prefix, entry_pointer_of, prefix
from tables.metadata_table import StoreMetadataTable
from tables.prune_bound_table import Bound, StoreBoundTable, least
from tables.store import MESSAGE, Row, Store
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS, Limits
from tms.core.runtime.clock import Clock
from tms.core.values.batch import Batch
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata
from tms.transactions.pruning import InvalidList

WHOLE = (b"", b"\xff")
"""The whole Message table, which is its only range in an embedded store."""
_POINTERS_AT_ONCE = 100
"""Transactions whose entries are inverted in one flush, or a few."""


def bound_of(store: Store) -> int:
    """Return the pointer up to which the whole Message table is inverted; 0 if none."""
    return least(StoreBoundTable(store).bounds(MESSAGE), *WHOLE)


def reached(listed: InvalidList, done: Container[int], bound: int) -> int:
    """Return the new bound of a range with `bound`, once all of `done` is inverted."""
    open_ = (p for p in listed.since if p > bound and p not in done)
    return max(bound, min(listed.ended_up_to, next(open_, listed.ended_up_to + 1) - 1))


def may_go(listed: InvalidList, bound: int, limits: Limits, now_ms: int) -> list[int]:
    """Return the pointers that may go off the list: up to the bound of all, and old enough."""
    stay_s = limits.transaction_lifetime_s_max + limits.cleanup_grace_s
    old = min(bound, (now_ms - stay_s * MS_PER_S) * WRITE_POINTERS_PER_MS - 1)
    return [pointer for pointer in listed.since if pointer <= old]


class InvalidSweep:
    """The passes over invalid transactions of one store."""

    def __init__(self, store: Store, services: ServiceCalls, limits: Limits, clock: Clock) -> None:
        self._store = store
        self._services = services
        self._clock = clock
        self._limits = limits
        self._budget = Budget(limits.cleanup_slice_rows, limits.cleanup_slice_ms)
        self._inverted: set[int] = set()
        """Pointers above the bound that are inverted."""

    def steps(self) -> Iterator[Step]:
        """Do one pass over all topics; yield a step after each part.

        Raises `StoreUnavailable` and the other `Unavailable` errors: then nothing is recorded.
        """
        listed = self._services.invalid_list()
        if listed is None or not listed.since:
            return
        proof = self._store.batch()
        bound = bound_of(self._store)
        todo = listed.seen_by_all(after=bound) - self._inverted
        published_here = sorted(p for p in todo if p > listed.knows_publications_after)
        for first in range(0, len(published_here), _POINTERS_AT_ONCE):
            some = published_here[first : first + _POINTERS_AT_ONCE]
            inverted = self._services.invert_published(some)
            yield Step(MESSAGE, Reason.INVALID, scanned=len(some), inverted=inverted)
        unknown = {p for p in todo if p <= listed.knows_publications_after}
        if unknown:
            from_ms = listed.searched_from_ms(unknown)
            for topic in StoreMetadataTable(self._store).scan():
                if topic.exists:
                    yield from self._invert_in(topic, unknown, from_ms)
        self._record(proof, listed, todo, bound)
        self._truncate(listed)

    def _invert_in(
        self, topic: TopicMetadata, pointers: Collection[int], from_ms: int
    ) -> Iterator[Step]:
        """Invert a topic's entries under `pointers`, which are not from before `from_ms`."""
        whole = prefix(topic.id, topic.generation)
        start, stop = whole + KEY.pack(from_ms, 0), after_prefix(whole)
        while True:
            with self._store.scan(MESSAGE, start, stop) as rows:
                seen = list(islice(rows, self._budget.rows_max))
            by_pointer: dict[int, list[Row]] = {}
            for row in seen:
                pointer = _pointer(row)
                if pointer in pointers:
                    by_pointer.setdefault(pointer, []).append(row)
            inverted = 0
            for pointer, own in by_pointer.items():
                inverted += self._services.invert(topic.id, topic.generation, pointer, own)
            yield Step(MESSAGE, Reason.INVALID, scanned=max(1, len(seen)), inverted=inverted)
            if len(seen) < self._budget.rows_max:
                return
            start = seen[-1][0] + b"\x00"

    def _record(self, proof: Batch, listed: InvalidList, todo: set[int], bound: int) -> None:
        """Record the bound, if it is greater than before."""
        done = self._inverted | todo
        up_to = reached(listed, done, bound)
        if not todo and not any(bound < pointer <= up_to for pointer in listed.since):
            return
        recorded = Bound(MESSAGE, *WHOLE, up_to, self._clock.now_ms())
        StoreBoundTable(self._store).put(proof, recorded)
        self._store.write(proof)
        self._services.forget_published(sorted(done))
        self._inverted = {p for p in done if p > up_to and p in listed.since}

    def _truncate(self, listed: InvalidList) -> None:
        """Take pointers off the list that are inverted and old enough."""
        pointers = may_go(listed, bound_of(self._store), self._limits, self._clock.deletion_ms())
        if pointers:
            self._services.truncate(pointers)


def _pointer(row: Row) -> int:
    return entry_pointer_of(row[1])
