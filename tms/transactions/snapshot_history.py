"""The pointers that the snapshot of each transaction in progress excludes, long after its start.

A snapshot has two lists: the pointers that were in progress, and those that were invalid. Kept for
each transaction, they would take space that grows with the square of the number in progress. So the
time when each pointer left a list is kept instead, as long as a snapshot in progress still has the
pointer, and lists are rebuilt from that. Recent snapshots are kept too, as far as they fit, because
a reader polls by the id of its transaction.

Times are write pointers: the time of an event is the last one assigned before it. So a transaction
started before an event if and only if its id is not above the event's time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tms.core.values.transaction import Transaction
from tms.transactions.in_progress import InProgress, Open
from tms.transactions.invalids import Invalids

_KEPT_POINTERS_MAX = 4_000_000
"""The most pointers in the kept lists, 8 bytes each."""
_SWEEP_MIN = 1_000


class Past(NamedTuple):
    """When a pointer was on the invalid list."""

    since: int
    until: int


class Excluded:
    """The exclusions of all transactions in progress."""

    def __init__(
        self,
        in_progress: InProgress,
        invalids: Invalids,
        kept_pointers_max: int = _KEPT_POINTERS_MAX,
    ) -> None:
        self.ended: dict[int, int] = {}
        """When pointers in progress ended, by pointer."""
        self.truncated: dict[int, Past] = {}
        """When pointers were invalid that no longer are, by pointer."""
        self._in_progress = in_progress
        self._invalids = invalids
        self._last_end = 0
        self._sweep_at = _SWEEP_MIN
        self._kept: dict[int, Transaction] = {}
        self._kept_pointers = 0
        self._kept_pointers_max = kept_pointers_max

    def load(self, ended: Mapping[int, int], truncated: Mapping[int, Past]) -> None:
        """Fill the empty record from a snapshot."""
        self.ended.update(ended)
        self.truncated.update(truncated)
        self._last_end = max(ended.values(), default=0)

    def snapshot(self, opened: Open) -> Transaction:
        """Return the transaction with its snapshot."""
        kept = self._kept.get(opened.id)
        if kept is None:
            kept = self._snapshot(opened)
            self._keep(kept)
        elif len(kept.checkpoint_write_pointers) < len(opened.checkpoints):
            kept = self._kept[opened.id] = kept._replace(
                write_pointer=opened.checkpoints[-1],
                checkpoint_write_pointers=tuple(opened.checkpoints),
            )
        return kept

    def _snapshot(self, opened: Open) -> Transaction:
        return Transaction(
            read_pointer=opened.read_pointer,
            transaction_id=opened.id,
            write_pointer=opened.checkpoints[-1] if opened.checkpoints else opened.id,
            invalids=self._invalids_at(opened.id),
            in_progress=self._in_progress_at(opened.id),
            first_short_in_progress=opened.first_short,
            type=opened.type,
            checkpoint_write_pointers=tuple(opened.checkpoints),
        )

    def has_ended(self, opened: Open, now: int) -> None:
        """Record that a transaction ended; `now` is the last write pointer."""
        kept = self._kept.pop(opened.id, None)
        if kept is not None:
            self._kept_pointers -= len(kept.in_progress)
        last = self._in_progress.last
        if opened.id < last:
            for pointer in opened.pointers:
                if pointer < last:
                    self.ended[pointer] = now
            self._last_end = now
            self._sweep_if_many()

    def was_invalid(self, pointer: int, past: Past) -> None:
        """Record that a pointer left the invalid list."""
        if past.since < self._in_progress.last:
            self.truncated[pointer] = past
            self._sweep_if_many()

    def sweep(self) -> None:
        """Forget pointers that no snapshot in progress excludes any more."""
        ids = [opened.id for opened in self._in_progress]

        def is_needed(after: int, until: int) -> bool:
            at = bisect_right(ids, after)
            return at < len(ids) and ids[at] <= until

        self.ended = {p: until for p, until in self.ended.items() if is_needed(p, until)}
        self.truncated = {p: past for p, past in self.truncated.items() if is_needed(*past)}
        self._sweep_at = 2 * (len(self.ended) + len(self.truncated)) + _SWEEP_MIN

    def _sweep_if_many(self) -> None:
        if len(self.ended) + len(self.truncated) > self._sweep_at:
            self.sweep()

    def _keep(self, snapshot: Transaction) -> None:
        self._kept[snapshot.transaction_id] = snapshot
        self._kept_pointers += len(snapshot.in_progress)
        while self._kept_pointers > self._kept_pointers_max:
            oldest = next(iter(self._kept))
            self._kept_pointers -= len(self._kept.pop(oldest).in_progress)

    def _in_progress_at(self, transaction_id: int) -> tuple[int, ...]:
        live = self._in_progress.by_pointer
        if self._last_end < transaction_id == self._in_progress.last:
            return tuple(live)[:-1]
        before = [pointer for pointer in live if pointer < transaction_id]
        ended = [p for p, until in self.ended.items() if p < transaction_id <= until]
        return tuple(sorted(before + ended)) if ended else tuple(before)

    def _invalids_at(self, transaction_id: int) -> Sequence[int]:
        if self._invalids.changed_at < transaction_id:
            return self._invalids.ascending
        return tuple(sorted(self._were_invalid_at(transaction_id)))

    def _were_invalid_at(self, transaction_id: int) -> Iterator[int]:
        for pointer, since in self._invalids.since().items():
            if since < transaction_id:
                yield pointer
        for pointer, past in self.truncated.items():
            if past.since < transaction_id <= past.until:
                yield pointer
