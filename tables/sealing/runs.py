"""Seals of runs: the ends of the rows that earlier leaders stored under a write pointer.

    seal row key := payload prefix (tables.keys), time 0, sequence 0       in the Payload table
    seal row     := JSON object {"token": n, "hidden": [[after, through], ...]}, with "ended": true
                    if the transaction had ended by then

A run is the stored messages of a topic under one write pointer; a reference publishes all of them.
An earlier leader may store more of them late. So a leader seals a run before it first reads it,
adds to it, or refers to it. It does so as with a topic (`tables.sealing.seal`), by a
compare-and-put of a row that belongs to the run.

The messages of a transaction are stored before it ends, because there is one flush at a time. So
only runs of transactions that were in progress during a takeover need seals
(`tables.sealing.takeovers`); the others cost nothing. A seal with "ended" is final. Late rows of
earlier leaders are hidden, and later leaders stored none.

When a run is read and sealed, the following runs are sealed with it, because they are read next:
one scan finds the ends of all of them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Lock

from tables.keys import POINTER, after_prefix, payload_key_of, run_prefix_of, topic_start
from tables.memory import MemoryStore
from tables.sealing.edges import shown
from tables.sealing.seal import Hidden, Seal, decode_seal, encode_seal
from tables.sealing.takeovers import Crossings
from tables.store import PAYLOAD, Row, Store
from tms.core.errors import StoreUnavailable
from tms.core.limits import INT64_MAX
from tms.core.runtime.held_lease import HeldLease
from tms.core.runtime.repeatable import repeatable
from tms.core.values.message import KEY

SEAL_KEY = KEY.pack(0, 0)
"""The bytes of a seal after the payload prefix. No payload has the time 0."""
SEAL_END = SEAL_KEY + b"\x00"
"""The first key of payloads."""
_RUNS_MAX = 200_000
"""The number kept in memory; others are read again."""
_TOGETHER_ROWS, _TOGETHER_BYTES = 1_000, 4 * 1024 * 1024
"""The rows and bytes that are read of runs that are sealed together."""
_GENERATION_BYTES = 4


class RunSeals:
    """The seals of the runs of one store, for many threads."""

    def __init__(
        self, store: Store, lease: HeldLease | None, token_of: Callable[[bytes], int]
    ) -> None:
        """Seal under a lease; without one, only apply earlier seals.

        `token_of` returns the token under which the topic with a metadata row key was sealed.
        """
        self._store = store
        self._lease = lease
        self._token_of = token_of
        self._lock = Lock()
        self._hidden: dict[bytes, Sequence[Hidden]] = {}
        self._through = INT64_MAX
        self._in_progress: Collection[int] | None = None
        self._crossings = Crossings(INT64_MAX)

    def record_takeover(
        self, last_write_pointer: int, in_progress: Collection[int], crossings: Crossings
    ) -> None:
        """Record the last write pointer before this leader, and the transactions in progress.

        `crossings` are those of all recorded takeovers. Without this call, as when another manager
        has the transactions, each run is sealed.
        """
        self._through, self._in_progress = last_write_pointer, frozenset(in_progress)
        self._crossings = crossings

    def hidden(self, run: bytes) -> Sequence[Hidden]:
        """Return the hidden ranges of the run with that payload prefix, before it is read.

        The following runs are sealed with it. Raises `StoreUnavailable`.
        """
        return self._looked_at(run, together=True)

    def seal(self, run: bytes) -> None:
        """Seal the run with that payload prefix, before it is written. Raises as `hidden` does."""
        self._looked_at(run, together=False)

    def _looked_at(self, run: bytes, *, together: bool) -> Sequence[Hidden]:
        if self._is_whole(run):
            return ()
        hidden = self._hidden.get(run)
        if hidden is None:
            with self._lock, repeatable():
                hidden = self._hidden.get(run)
                if hidden is None:
                    for each, rows in self._from(run).items() if together else ():
                        self._keep(each, self._sealed(each, rows))
                    hidden = self._hidden.get(run)
                if hidden is None:
                    hidden = self._sealed(run, self._store).hidden
                    self._keep(run, Seal(hidden=hidden))
        return hidden

    def _keep(self, run: bytes, seal: Seal) -> None:
        if len(self._hidden) >= _RUNS_MAX:
            self._hidden.clear()
        self._hidden[run] = seal.hidden

    def _is_whole(self, run: bytes) -> bool:
        """Whether no row can be late: its transaction was not in progress during any takeover.

        A key that is too short is damaged, and belongs to no run.
        """
        if len(run) <= POINTER.size:
            return True
        if self._lease is None or self._in_progress is None:
            return False
        pointer = _pointer_of(run)
        return pointer > self._through or self._crossings.has_none_of(pointer)

    def _has_ended(self, run: bytes) -> bool:
        return self._in_progress is not None and _pointer_of(run) not in self._in_progress

    def _sealed(self, run: bytes, rows: Store) -> Seal:
        """Return the seal of a run from its rows as just read; put the seal if necessary."""
        lease = self._lease
        if not self._token_of(topic_start(run)):
            return Seal()  # a leader seals the topic first
        while True:
            row = rows.get(PAYLOAD, run + SEAL_KEY)
            seal = Seal() if row is None else decode_seal(row)
            if lease is None or seal.has_ended or seal.token == lease.token:
                return seal
            if seal.token > lease.token:
                raise StoreUnavailable(reason=_SEALED_LATER, later_token=seal.token)
            through_ms = max(lease.keys_after_ms, seal.through_ms)
            within = (SEAL_END, KEY.pack(through_ms + 1, 0))
            first, last = shown(rows, PAYLOAD, run, seal, within)
            seal = seal.followed(lease.token, through_ms, first, last)
            seal = replace(seal, has_ended=self._has_ended(run))
            if self._store.compare_and_put(PAYLOAD, run + SEAL_KEY, row, encode_seal(seal)):
                return seal
            rows = self._store  # an earlier leader has put its seal in the meantime

    def _from(self, run: bytes) -> dict[bytes, MemoryStore]:
        """Return the rows of a run and of the following ones, up to one that needs no seal.

        Only runs wholly within some rows and bytes are returned. Of payloads only the key counts.
        """
        stores: dict[bytes, MemoryStore] = {}
        count = size = 0
        behind = after_prefix(run[: -POINTER.size])
        with self._store.scan(PAYLOAD, run, behind, limit=_TOGETHER_ROWS) as rows:
            own = b""
            for key, value in rows:
                count, size = count + 1, size + len(key) + len(value)
                if size > _TOGETHER_BYTES:
                    break
                if run_prefix_of(key) != own:
                    own = run_prefix_of(key)
                    if own in self._hidden or self._is_whole(own):
                        return stores
                    stores[own] = MemoryStore()
                batch = stores[own].batch()
                batch.put(PAYLOAD, key, value if is_seal(key) else b"")
                stores[own].write(batch)
        if stores and (count == _TOGETHER_ROWS or size > _TOGETHER_BYTES):
            stores.popitem()  # there may be more rows of this run
        return stores

    def without_hidden(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows of many runs without their seals and the rows that these hide."""
        run = b""
        hidden: Sequence[Hidden] = ()
        for row in rows:
            key = row[0]
            if run_prefix_of(key) != run:
                run = run_prefix_of(key)
                hidden = self.hidden(run)
            end = payload_key_of(key)
            if end != SEAL_KEY and not any(each.start <= end < each.stop for each in hidden):
                yield row


def run_of(start: bytes, stop: bytes) -> bytes | None:
    """Return the payload prefix of the one run that has a range; None if there are more."""
    run = start[: len(topic_start(start)) + _GENERATION_BYTES + POINTER.size]
    is_whole = len(run) == len(topic_start(start)) + _GENERATION_BYTES + POINTER.size
    return run if is_whole and stop <= after_prefix(run) else None


def _pointer_of(run: bytes) -> int:
    return int.from_bytes(run[-POINTER.size :])


def is_seal(key: bytes) -> bool:
    """Whether a row of the Payload table is a seal."""
    return payload_key_of(key) == SEAL_KEY


_SEALED_LATER = "a later leader has sealed the messages that were stored under the write pointer"
