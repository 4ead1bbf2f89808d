"""Checks that the tables of a store are consistent. Only reads.

Each problem is one line; no crash should ever cause one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cleanup import policy
from cleanup.inspection import Inspection, StateOfTransactions
from cleanup.invalid import bound_of
from tables.group_table import StoreGroupTable, row_of_group
from tables.keys import (
    FRAMED_KIND,
    POINTER_END,
    REFERENCE_KIND,
    TRANSACTIONAL_FRAMED_KIND,
    after_prefix,
    entry_pointer_of,
    is_framed_payload,
    metadata_key,
    payload_prefix,
    prefix,
    prefix_of,
)
from tables.metadata_table import decoded
from tables.schedule_table import row_of_schedule
from tables.sealing.groups import shared_in
from tables.sealing.runs import SEAL_END
from tables.sealing.seal import Seal, seal_of
from tables.store import GROUP, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, Row, Store
from tables.transaction_table import StoreTransactionTable
from tms.core.errors import StoreCorrupt
from tms.core.limits import Limits
from tms.core.values.entries import PLAIN
from tms.core.values.frame import read_frame
from tms.core.values.message import KEY, KEY_BYTES
from tms.core.values.topic import TopicId, TopicMetadata
from tms.transactions.segments import token_of

CHECKED_BY_ROW = (MESSAGE, PAYLOAD, SUBSCRIPTION, GROUP)
"""The tables whose rows belong to topics."""


class Verification(Inspection):
    """An inspection of one store that also checks it."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        now_ms: int,
        transactions: StateOfTransactions = None,
        transactions_ms: int | None = None,
    ) -> None:
        """Check `store` as of `now_ms`, in milliseconds since 1970; see `Inspection`."""
        super().__init__(store, limits, now_ms, transactions, transactions_ms)
        self.sealed = 0
        """The number of sealed rows met; they are not problems."""
        self.without_payloads = 0
        """The number of live references without stored messages. A publish of no messages writes
        one too, so they may not be lost payloads.
        """
        self._topics: dict[TopicId, TopicMetadata] = {}
        self._seals: dict[TopicId, Seal] = {}
        self._invalids: frozenset[int] = frozenset()
        self._bound = 0
        self._read_groups: set[bytes] = set()
        """The prefixes of topics whose groups were checked."""

    def prepared(self) -> list[str]:
        """Read the data to check rows against; return its problems."""
        problems = []
        try:
            self._topics, self._seals = {}, {}
            self._read_groups = set()
            for key, row in self.rows(METADATA):
                # Without properties: there may be many topics, each with a megabyte of them.
                topic = replace(decoded(key, row), properties={})
                self._topics[topic.id] = topic
                self._seals[topic.id] = seal_of(row)
        except StoreCorrupt as error:
            problems.append(f"the metadata of topics is damaged: {error}")
        return [*problems, *self._of_transactions()]

    def _of_transactions(self) -> Iterator[str]:
        table = StoreTransactionTable(self._store)
        try:
            state = self.state()
            bound = bound_of(self._store)
        except StoreCorrupt as error:
            yield f"the transactions are damaged: {error}"
            return
        self._invalids = frozenset(state.invalids) if state is not None else frozenset()
        self._bound = bound
        if state is not None and bound > state.last_write_pointer:
            yield f"the bound {bound} is above the last write pointer {state.last_write_pointer}"
        oldest = min(table.snapshots(), default=0)
        old = [n for n, _ in table.rows(0) if policy.log_row(n, oldest) is policy.Decision.DROP]
        # Rows of an earlier segment may be late ones, which the next snapshot deletes.
        leftover = [n for n in old if token_of(n) == token_of(oldest)]
        if leftover:
            yield f"older than all snapshots: {len(leftover)} rows of the log of transactions"

    def of_rows(self, table: str, rows: Iterable[Row], *, is_cleaned: bool) -> Iterator[str]:
        """Yield the problems of rows of a table in `CHECKED_BY_ROW`; call `prepared` first."""
        before = b""
        for row in rows:
            place = f"{table} {row[0].hex()}"
            if row[0] <= before:
                yield f"{place}: the key is not above the one before"
            before = row[0]
            try:
                topic_id, generation, _ = prefix_of(row[0])
                topic = self._topics.get(topic_id)
                yield from self._of_topic(table, row, topic, generation, is_cleaned=is_cleaned)
            except StoreCorrupt as error:
                yield f"{place}: {error}"

    def _of_topic(
        self,
        table: str,
        row: Row,
        topic: TopicMetadata | None,
        generation: int,
        *,
        is_cleaned: bool,
    ) -> Iterator[str]:
        key, value = row
        place = f"{table} {key.hex()}"
        if topic is None:
            yield f"{place}: its topic has no metadata"
        elif generation > abs(topic.generation):
            yield f"{place}: its generation {generation} does not exist yet"
        elif policy.is_dead(generation, topic.generation):
            if is_cleaned and not self._is_greatest(table, key, topic):
                yield f"{place}: its generation {generation} is dead"
        elif table == MESSAGE and self._seals[topic.id].range_of(key[-KEY_BYTES:]) is not None:
            self.sealed += 1
        elif table == MESSAGE:
            yield from self._entry(place, topic, key, value)
        elif table == PAYLOAD and is_framed_payload(key):
            read_frame(value)
        elif table in (SUBSCRIPTION, GROUP):
            start = prefix(topic.id, generation)
            if table == GROUP:
                _ = row_of_schedule(start, key) or row_of_group(start, key)
            yield from self._groups(start)

    def _groups(self, topic_prefix: bytes) -> Iterator[str]:
        """Yield the groups that cannot be read; for each topic once."""
        if topic_prefix in self._read_groups:
            return
        self._read_groups.add(topic_prefix)
        for _, group in shared_in(self._store, topic_prefix):
            try:
                StoreGroupTable(self._store).read(topic_prefix, group.name, group.created)
            except StoreCorrupt as error:
                yield f"group {group.topic_id} {group.name}: {error}"

    def _is_greatest(self, table: str, key: bytes, topic: TopicMetadata) -> bool:
        """Whether a row is the topic's greatest, which stays for its key."""
        start = metadata_key(topic.id)
        with self._store.scan(table, start, after_prefix(start), reverse=True, limit=1) as rows:
            return table == MESSAGE and next((k for k, _ in rows), None) == key

    def _entry(self, place: str, topic: TopicMetadata, key: bytes, value: bytes) -> Iterator[str]:
        """Yield the problems of an entry of a live topic."""
        if not value:
            yield f"{place}: it has no value"
            return
        is_framed = value[0] in (FRAMED_KIND, TRANSACTIONAL_FRAMED_KIND)
        pointer = entry_pointer_of(value)
        if is_framed:
            read_frame(value, 1 if pointer == PLAIN else POINTER_END)
        if pointer == PLAIN:
            return
        if pointer > PLAIN and pointer <= self._bound and pointer in self._invalids:
            yield f"{place}: its transaction {pointer} is invalid, but is below the bound"
        published_ms, _ = KEY.unpack(key[-KEY_BYTES:])
        if value[0] == REFERENCE_KIND and pointer > PLAIN:
            live_ms = topic.first_live_ms(self._now_ms)
            start = payload_prefix(key[:-KEY_BYTES], pointer)
            first = start + SEAL_END
            with self._store.scan(PAYLOAD, first, after_prefix(start), limit=1) as rows:
                has_payloads = next(rows, None) is not None
            # A payload is stored, and expires, before its reference.
            margin_ms = self._limits.transaction_lifetime_s_max * 1000
            if not has_payloads and published_ms - margin_ms >= live_ms:
                self.without_payloads += 1
