"""A Store whose topics are sealed (`tables.sealing.seal`): it hides late rows of earlier leaders.

1. A topic is sealed, by a compare-and-put of its metadata row, when its messages are first read or
   written, or when it is changed. Rows that were in the topic at that moment stay visible to
   everybody; later rows with a key of an earlier leader are hidden.
2. Under a lease no row is written whose key is above the lease's ceiling.

So a topic costs a compare-and-put for each leader (`tables.sealing.background` seals unused
topics), and a message costs nothing. Without a lease no topic is sealed, but hidden rows stay
hidden. This holds for scans within one topic: a scan across topics gives all rows.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from threading import Lock
from typing import NamedTuple

from tables.keys import (
    message_key_of,
    payload_key_of,
    prefix,
    run_prefix_of,
    topic_start,
)
from tables.metadata_table import decoded
from tables.sealing.edges import shown
from tables.sealing.runs import SEAL_END, RunSeals, run_of
from tables.sealing.seal import Hidden, Seal, seal_of, sealed_row, topic_row
from tables.store import GROUP, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, Row, Store
from tms.core.errors import StoreUnavailable
from tms.core.runtime.held_lease import HeldLease
from tms.core.runtime.repeatable import repeatable
from tms.core.values.batch import Batch
from tms.core.values.message import KEY

_OF_TOPICS = frozenset({MESSAGE, PAYLOAD, SUBSCRIPTION, GROUP})
_KEYED = frozenset({MESSAGE, PAYLOAD})
"""The tables whose keys end in a time that the lease bounds."""
_TOPICS_MAX = 200_000
"""The number kept in memory; others are read again."""
_COLONS = 2
_SEALED_LATER = "a later leader has sealed the topic"


class _Look(NamedTuple):
    """The hidden ranges of a topic."""

    prefix: bytes
    """The prefix of the generation; empty if nothing is hidden until something changes."""
    seal: Seal


class SealedBatch:
    """A batch of the underlying store, and what to seal before it."""

    def __init__(self, batch: Batch, *, is_sealed: bool) -> None:
        self.batch = batch
        self._tables = _OF_TOPICS if is_sealed else frozenset()
        self.topics: dict[bytes, None] = {}
        """The metadata keys of the topics with rows in the batch, in order."""
        self.runs: dict[bytes, None] = {}
        """The payload prefixes of the runs that the batch adds to or refers to."""
        self.last_ms = -1
        """The greatest time in the batch's keys."""

    def put(self, table: str, key: bytes, value: bytes) -> None:
        """Add a put."""
        self.put_rows(table, ((key, value),))

    def put_rows(
        self, table: str, rows: Iterable[Row], prefix: bytes = b"", start: bytes = b""
    ) -> None:
        """Add a put for each key, after `prefix`, and value, after `start`."""
        if table in self._tables:
            rows = list(rows)
            keys = [prefix + key for key, _ in rows]
            self._note(keys)
            if table in _KEYED and keys:
                if table == PAYLOAD:
                    self.runs |= dict.fromkeys([run_prefix_of(key) for key in keys])
                own_key = payload_key_of if table == PAYLOAD else message_key_of
                latest = max(map(own_key, keys))
                self.last_ms = max(self.last_ms, KEY.unpack(latest)[0])
        self.batch.put_rows(table, rows, prefix, start)

    def delete(self, table: str, key: bytes) -> None:
        """Add a delete."""
        self.delete_rows(table, (key,))

    def delete_rows(self, table: str, keys: Iterable[bytes]) -> None:
        """Add a delete for each key."""
        if table in self._tables:
            keys = list(keys)
            self._note(keys)
        self.batch.delete_rows(table, keys)

    def _note(self, keys: Sequence[bytes]) -> None:
        topic = None
        for key in keys:
            if topic is None or not key.startswith(topic):
                topic = topic_start(key)
                self.topics[topic] = None

    def require_atomic(self) -> None:
        """Make the batch atomic, also across a crash."""
        self.batch.require_atomic()


class SealedStore:
    """A store's tables without the hidden rows, for many threads."""

    def __init__(self, store: Store, lease: HeldLease | None = None) -> None:
        """Seal the topics of `store`, which closes with this one, under a lease if given."""
        self.beneath = store
        """The same store, hidden rows included."""
        self.atomic = store.atomic
        self.is_embedded = store.is_embedded
        self.exchanges = None
        self.reads_at_once = store.reads_at_once
        self.check_writable = store.check_writable
        self.is_behind = store.is_behind
        self.check_unanswered = store.check_unanswered
        self.compact = store.compact
        self.size_bytes = store.size_bytes
        self.raise_format = store.raise_format
        self.features = store.features
        self.add_feature = store.add_feature
        self.close = store.close
        self._lease = lease
        self._lock = Lock()
        self._looks: dict[bytes, _Look] = {}
        self.runs = RunSeals(store, lease, lambda topic: self._look(topic).seal.token)

    @property
    def token(self) -> int:
        """The token of the lease; 0 without one."""
        return 0 if self._lease is None else self._lease.token

    def seal(self, topic: bytes) -> Seal:
        """Return the seal of the topic with that metadata key; seal it if necessary.

        Raises `StoreUnavailable`.
        """
        return self._look(topic).seal

    def is_sealed(self, topic: bytes) -> bool:
        """Whether memory says that a topic is sealed. Reads nothing."""
        return topic in self._looks

    def _look(self, topic: bytes) -> _Look:
        look = self._looks.get(topic)
        if look is None:
            with self._lock:
                look = self._looks.get(topic)
                if look is None:
                    with repeatable():
                        look = self._sealed(topic)
                if look is not None:
                    self._keep(topic, look)
        return look or _Look(b"", Seal())

    def _keep(self, topic: bytes, look: _Look) -> None:
        if len(self._looks) >= _TOPICS_MAX:
            self._looks.clear()
        self._looks[topic] = look

    def _sealed(self, topic: bytes) -> _Look | None:
        """Seal a topic unless it is sealed; without a lease, read its seal, if there is one."""
        lease = self._lease
        while True:
            row = self.beneath.get(METADATA, topic)
            if row is None:
                return None
            seal = seal_of(row)
            if lease is None and seal == Seal():
                return _Look(b"", seal)
            start = _prefix(topic, row)
            if lease is None or seal.token == lease.token:
                return _Look(start, seal)
            if seal.token > lease.token:
                raise StoreUnavailable(reason=_SEALED_LATER, later_token=seal.token)
            through_ms = max(lease.keys_after_ms, seal.through_ms)
            within = (b"", KEY.pack(through_ms + 1, 0))
            first, last = shown(self.beneath, MESSAGE, start, seal, within)
            seal = seal.followed(lease.token, through_ms, first, last)
            # If an earlier leader has changed the topic in the meantime, it is read again.
            if self.beneath.compare_and_put(METADATA, topic, row, sealed_row(row, seal)):
                return _Look(start, seal)

    def _hidden(self, start: bytes, stop: bytes) -> tuple[bytes, Sequence[Hidden]]:
        """Return the hidden parts of a range of one topic in the Message table."""
        topic = topic_start(start)
        if topic.count(b":") < _COLONS or stop > topic[:-1] + b";":
            return b"", ()
        look = self._look(topic)
        return look.prefix, look.seal.hidden

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of `key`, None if there is none."""
        if table == METADATA and self._lease is not None:
            self._look(key)  # so that no late write changes the topic after it is read
        value = self.beneath.get(table, key)
        if value is not None and table == METADATA:
            return topic_row(value)
        if value is not None and table == MESSAGE:
            start, hidden = self._hidden(key, key)
            if any(start + each.start <= key < start + each.stop for each in hidden):
                return None
        return value

    @contextmanager
    def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Iterator[Row]]:
        """Open an iterator over the rows with start <= key < stop, at most `limit` of them."""
        run = run_of(start, stop) if table == PAYLOAD else None
        if table == PAYLOAD and run is None:
            with self.beneath.scan(table, start, stop, reverse=reverse) as rows:
                yield islice(self.runs.without_hidden(rows), limit)
            return
        hidden: list[tuple[bytes, bytes]] = []
        if run is not None:
            start = max(start, run + SEAL_END)
            hidden = [(run + each.start, run + each.stop) for each in self.runs.hidden(run)]
        elif table == MESSAGE:
            hidden = self._hidden_ranges(start, stop)
        hidden = [each for each in hidden if each[0] < stop and start < each[1]]
        if hidden:
            visible = self._without(hidden, table, (start, stop), limit, reverse=reverse)
            with closing(visible) as rows:
                yield rows
            return
        with self.beneath.scan(table, start, stop, reverse=reverse, limit=limit) as rows:
            yield ((key, topic_row(row)) for key, row in rows) if table == METADATA else rows

    def _hidden_ranges(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Return the hidden ranges within a range of the Message table, ascending."""
        prefix, hidden = self._hidden(start, stop)
        return [(prefix + each.start, prefix + each.stop) for each in hidden]

    def _without(
        self,
        hidden: Sequence[tuple[bytes, bytes]],
        table: str,
        within: tuple[bytes, bytes],
        limit: int | None,
        *,
        reverse: bool,
    ) -> Generator[Row, None, None]:
        """Yield the rows of a range that are in no hidden range.

        One scan reads them, because rows are rarely late; at a hidden row, another scan continues
        after the range that hides it.
        """
        (start, stop), remaining = within, limit
        while start < stop and remaining != 0:
            met = None
            with self.beneath.scan(table, start, stop, reverse=reverse, limit=remaining) as rows:
                for row in rows:
                    met = next((each for each in hidden if each[0] <= row[0] < each[1]), None)
                    if met is not None:
                        break
                    remaining = None if remaining is None else remaining - 1
                    yield row
            if met is None:
                return
            start, stop = (start, met[0]) if reverse else (met[1], stop)

    def batch(self, *, durable: bool = True) -> SealedBatch:
        """Return an empty batch."""
        batch = self.beneath.batch(durable=durable)
        return SealedBatch(batch, is_sealed=self._lease is not None)

    def write(self, batch: Batch) -> None:
        """Seal the topics with rows in a batch, and carry it out."""
        assert isinstance(batch, SealedBatch)
        if self._lease is not None:
            self._lease.give_keys(batch.last_ms)
            for topic in batch.topics:
                self._look(topic)
            for run in batch.runs:
                self.runs.seal(run)
        self.beneath.write(batch.batch)

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        """Put or delete `value` if the key has `expected`, durably, as `Store` says."""
        if table != METADATA:
            return self.beneath.compare_and_put(table, key, expected, value)
        if self._lease is not None and expected is not None:
            self._look(key)
        stored = self.beneath.get(METADATA, key)
        if (None if stored is None else topic_row(stored)) != expected:
            return False
        seal = Seal() if stored is None else seal_of(stored)
        if self._lease is not None and seal.token > self._lease.token:
            raise StoreUnavailable(reason=_SEALED_LATER, later_token=seal.token)
        if value is None or (self._lease is None and seal == Seal()):
            return self.beneath.compare_and_put(METADATA, key, stored, value)
        start = _prefix(key, value)
        if stored is None or _prefix(key, stored) != start:
            seal = self._of_new_generation(seal)
        self._looks.pop(key, None)  # without an answer, the generation is unknown
        if not self.beneath.compare_and_put(METADATA, key, stored, sealed_row(value, seal)):
            return False
        self._keep(key, _Look(start, seal))
        return True

    def _of_new_generation(self, before: Seal) -> Seal:
        """Return the seal of a new generation, which hides all rows of earlier leaders."""
        lease = self._lease
        token, through_ms = (0, 0) if lease is None else (lease.token, lease.keys_after_ms)
        nothing = Seal(before.token, (Hidden(b"", before.through_ms),))
        return nothing.followed(max(token, before.token), through_ms, None, None)

    @property
    def is_raised(self) -> bool:
        """Whether the present format is recorded."""
        return self.beneath.is_raised


def unsealed(store: Store) -> Store:
    """Return the store with all its rows, hidden ones included."""
    return store.beneath if isinstance(store, SealedStore) else store


def _prefix(topic: bytes, row: bytes) -> bytes:
    """Return the prefix of the generation that a metadata row has, deleted or not."""
    topic_metadata = decoded(topic, row)
    return prefix(topic_metadata.id, abs(topic_metadata.generation))
