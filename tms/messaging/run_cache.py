"""The cache of stored runs: the messages of references, as the Payload table has them.

It holds runs that a poll has read to their end. A cached run has all durable messages from its
first key on:
1. A store under a write pointer drops its run; a failed write drops all runs of the topic.
2. A run is not kept if messages were stored during the read, or a failed write may still add some.

The caches of all topics share a part of the message cache's budget. If they exceed it, the run
unused for longest is dropped first. Used from the event loop's thread alone.
"""

from collections import OrderedDict
from collections.abc import Callable

from tms.core.values.stored_runs import ReadRun, Reference

_RUN_OVERHEAD_BYTES = 600
_MESSAGE_OVERHEAD_BYTES = 8


def _weight(run: ReadRun) -> int:
    return len(run.block.items) + _MESSAGE_OVERHEAD_BYTES * run.block.count + _RUN_OVERHEAD_BYTES


class RunBudget:
    """The bytes that the stored runs of all topics may take together."""

    def __init__(self, bytes_max: int, on_changed: Callable[[int], None]) -> None:
        """Call `on_changed` with the bytes gained or lost."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._on_changed = on_changed
        self._runs: OrderedDict[tuple[RunCache, int], int] = OrderedDict()
        """The weights of the runs, the one unused for longest first."""

    def has_room(self, weight: int) -> bool:
        """Whether a run can be kept without dropping others."""
        return self._bytes + weight <= self._bytes_max

    def add(self, cache: "RunCache", write_pointer: int, weight: int) -> None:
        """Count a run, and drop others if there is too much."""
        self._runs[cache, write_pointer] = weight
        self._change(weight)
        while self._bytes > self._bytes_max:
            oldest, pointer = next(iter(self._runs))
            oldest.forget(pointer)

    def use(self, cache: "RunCache", write_pointer: int) -> None:
        """Mark a run as the one used last."""
        self._runs.move_to_end((cache, write_pointer))

    def remove(self, cache: "RunCache", write_pointer: int) -> None:
        """Stop counting a run."""
        self._change(-self._runs.pop((cache, write_pointer)))

    def _change(self, by_bytes: int) -> None:
        self._bytes += by_bytes
        self._on_changed(by_bytes)


class RunCache:
    """The stored runs of one topic's generation."""

    def __init__(self, budget: RunBudget) -> None:
        self._budget = budget
        self._runs: dict[int, ReadRun] = {}
        self._is_retired = False
        self.changes = 0
        """Increases whenever a run read before may lack messages."""

    def get(self, reference: Reference) -> ReadRun | None:
        """Return the run of a reference if it is cached from the reference's first key on."""
        run = self._runs.get(reference.write_pointer)
        if (
            run is None
            or run.message_key != reference.message_key
            or run.first_key > reference.first_key
        ):
            return None
        self._budget.use(self, reference.write_pointer)
        return run

    def put(self, run: ReadRun, seen: int, *, makes_room: bool = True) -> None:
        """Keep a run that was read when `changes` was `seen`, unless it is rolled back or cut.

        Without `makes_room` it is kept only if no other must be dropped for it.
        """
        pointer, weight = run.write_pointer, _weight(run)
        if self._is_retired or seen != self.changes or pointer < 0 or run.next_key is not None:
            return
        if not makes_room and not self._budget.has_room(weight):
            return
        self.forget(pointer)
        self._runs[pointer] = run
        self._budget.add(self, pointer, weight)

    def forget(self, write_pointer: int) -> None:
        """Drop a run."""
        if self._runs.pop(write_pointer, None) is not None:
            self._budget.remove(self, write_pointer)

    def stored(self, write_pointer: int) -> None:
        """Drop a run to which messages were added."""
        self.changes += 1
        self.forget(write_pointer)

    def clear(self) -> None:
        """Drop all runs: there may be more in the table."""
        self.changes += 1
        for pointer in tuple(self._runs):
            self.forget(pointer)

    def retire(self) -> None:
        """Drop all runs and keep none from now on."""
        self._is_retired = True
        self.clear()
