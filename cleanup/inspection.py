"""Inspects the tables of a store: decodes rows, measures sizes, explains a message.

The store is one that no server has, or the server's own, which then supplies the state of
transactions. Only reads, and blocks.
"""

import base64
from collections.abc import Callable, Iterator
from itertools import islice

from cleanup.compaction import key_and_tombstone
from cleanup.invalid import bound_of
from cleanup.service import invalid_state, prune_bound
from tables.group_table import row_of_group
from tables.keys import (
    FRAMED_END,
    FRAMED_KIND,
    KINDS_WITHOUT_POINTER,
    POINTER_END,
    REFERENCE_KIND,
    TRANSACTIONAL_FRAMED_KIND,
    after_prefix,
    entry_pointer_of,
    is_framed_payload,
    metadata_key,
    payload_key_of,
    payload_pointer_of,
    payload_prefix,
    prefix,
    prefix_of,
)
from tables.metadata_table import StoreMetadataTable, decoded
from tables.prune_bound_table import StoreBoundTable
from tables.raising import shown_rows
from tables.schedule_table import row_of_schedule
from tables.sealing.positions import row_of_position
from tables.sealing.runs import is_seal
from tables.sealing.seal import Seal, seal_of
from tables.sealing.store import unsealed
from tables.store import (
    GROUP,
    MESSAGE,
    METADATA,
    PAYLOAD,
    SUBSCRIPTION,
    TABLES,
    Row,
    Store,
    tables_with,
)
from tables.transaction_table import StoreTransactionTable
from tms.core.errors import TopicNotFound
from tms.core.limits import Limits
from tms.core.services.transactions import TransactionStatus, standing
from tms.core.values.cleanup import InvalidState, PruneBound
from tms.core.values.entries import PLAIN
from tms.core.values.frame import read_frame
from tms.core.values.inspection import Facts
from tms.core.values.message import KEY, KEY_BYTES, NO_PAYLOAD_KEY, MessageId, first_id_at
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import tombstone_s_of
from tms.transactions.commands import TransactionState
from tms.transactions.pruning import invalid_list
from tms.transactions.recovery import recover

StateOfTransactions = Callable[[], TransactionState | None] | None

_ROWS_AT_ONCE = 1_000
_ROWS_LOOKED_AT = 10_000
"""How many rows are searched for a newer message of the same key, or an older open one."""
_COMPACTED = "The topic is compact: superseded and rolled back messages and tombstones are removed."
_END = b"\xff"
_OF_TOPICS = (MESSAGE, PAYLOAD, SUBSCRIPTION, GROUP)


class Inspection:
    """An inspection of one store."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        now_ms: int,
        transactions: StateOfTransactions = None,
        transactions_ms: int | None = None,
    ) -> None:
        """Inspect `store` as of `now_ms`, in milliseconds since 1970.

        `transactions` returns the state of transactions, as of `transactions_ms`, because their
        timeouts have a clock of their own. Without it, the state is recovered from the store.
        """
        self._store = unsealed(store)
        self._limits = limits
        self._now_ms = now_ms
        self._transactions = transactions
        self._transactions_ms = now_ms if transactions_ms is None else transactions_ms

    def seal(self, topic_id: TopicId) -> Seal:
        """Return the seal of a topic."""
        row = self._store.get(METADATA, metadata_key(topic_id))
        return Seal() if row is None else seal_of(row)

    def rows(self, table: str, start: bytes = b"", stop: bytes = _END) -> Iterator[Row]:
        """Yield the rows of a range, keeping no state of the table alive between pages.

        They are as stored, except that topics are as readers see them.
        """
        if table not in TABLES and table not in tables_with(self._store.features()):
            return
        while True:
            shown = shown_rows(self._store)
            with self._store.scan(table, start, stop, limit=_ROWS_AT_ONCE) as scanned:
                rows = list(scanned)
            yield from ((key, shown(row)) for key, row in rows) if table == METADATA else rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    def topic(self, topic_id: TopicId) -> TopicMetadata | None:
        """Return a topic from its metadata, deleted or not."""
        return StoreMetadataTable(self._store).get(topic_id)

    def range_of(
        self, table: str, topic_id: TopicId | None, from_ms: int | None
    ) -> tuple[bytes, bytes]:
        """Return the range of a table's rows, of one topic or of all.

        With `from_ms`, messages of a topic begin at that time.
        """
        start, stop = b"", _END
        if topic_id is not None and table in (*_OF_TOPICS, METADATA):
            start = metadata_key(topic_id)
            stop = after_prefix(start)
            topic = self.topic(topic_id)
            if from_ms is not None and topic is not None and table == MESSAGE:
                start = prefix(topic_id, abs(topic.generation)) + first_id_at(from_ms)[:KEY_BYTES]
        return start, stop

    def state(self) -> TransactionState | None:
        """Return the state of transactions, None if there never was one. Raises `StoreCorrupt`."""
        if self._transactions is not None:
            return self._transactions()
        table = StoreTransactionTable(self._store)
        if not table.snapshots():
            return None
        return recover(table, self._limits, self._now_ms).state

    def bounds(self) -> list[PruneBound]:
        """Return how far cleanup has got with invalid transactions."""
        return [prune_bound(bound) for bound in StoreBoundTable(self._store).bounds(MESSAGE)]

    def invalid(self) -> InvalidState | None:
        """Return what keeps the invalid list from shrinking, None without transactions."""
        state = self.state()
        if state is None:
            return None
        listed = invalid_list(state, state.last_write_pointer)
        return invalid_state(listed, bound_of(self._store), self._limits)

    def explain(self, topic_id: TopicId, message_id: bytes) -> Facts:
        """Return the fields of an id, the entry stored under it, and why readers get it or not.

        Raises `TopicNotFound` if there never was such a topic.
        """
        parts = MessageId.decode(message_id)
        topic = self.topic(topic_id)
        if topic is None:
            raise TopicNotFound(topic=str(topic_id))
        facts: Facts = {
            "id": message_id.hex(),
            "published_ms": parts.publish_timestamp,
            "sequence": parts.sequence_id,
            "generation": topic.generation,
            "ttl_s": topic.ttl_s,
        }
        if topic.live_from_ms:
            facts["live_from_ms"] = topic.live_from_ms
        key = prefix(topic_id, abs(topic.generation)) + message_id[:KEY_BYTES]
        value = self._store.get(MESSAGE, key)
        sentences = [] if topic.exists else ["The topic is deleted."]
        if parts.publish_timestamp < topic.first_live_ms(self._now_ms):
            sentences.append("It has expired: no reader gets it.")
        if value is None:
            sentences.append("There is no such row: it was never published, or it was cleaned up.")
            if topic.is_compact:
                sentences.append(_COMPACTED)
            return facts | {"said": sentences}
        facts |= row_facts(MESSAGE, (key, value))
        if self.seal(topic_id).range_of(message_id[:KEY_BYTES]) is not None:
            sentences.append(
                "It is hidden by a seal: an earlier leader sent it too late; no reader gets it."
            )
            return facts | {"said": sentences}
        sentences += self._explain_readers(topic, key, facts)
        if topic.is_compact:
            sentences.append(self._explain_compaction(topic, key, value))
        if message_id[KEY_BYTES:] != NO_PAYLOAD_KEY and "write_pointer" in facts:
            start = payload_prefix(key[:-KEY_BYTES], int(facts["write_pointer"]))
            stored = start + message_id[KEY_BYTES:]
            there = any(
                self._store.get(PAYLOAD, key) is not None for key in (stored, stored + FRAMED_END)
            )
            sentences.append("Its payload is there." if there else "Its payload is missing.")
        return facts | {"said": sentences}

    def _explain_compaction(self, topic: TopicMetadata, row_key: bytes, value: bytes) -> str:
        """Explain what compaction does with an entry."""
        key, is_tombstone = key_and_tombstone(value)
        if key is None:
            return "It has no key: compaction keeps it."
        stop = after_prefix(prefix(topic.id, topic.generation))
        behind = islice(self.rows(MESSAGE, row_key + b"\x00", stop), _ROWS_LOOKED_AT)
        for count, (newer, newer_value) in enumerate(behind, 1):
            if key_and_tombstone(newer_value)[0] == key:
                newer_id = (newer[-KEY_BYTES:] + NO_PAYLOAD_KEY).hex()
                text = "has the same key: when all readers see that one, compaction removes this."
                return f"{newer_id} {text}"
            if count == _ROWS_LOOKED_AT:
                return f"None of the next {_ROWS_LOOKED_AT} messages has its key."
        if is_tombstone:
            tombstone_s = tombstone_s_of(topic.properties)
            return f"It says that its key is gone: compaction removes it after {tombstone_s} s."
        return "It is the newest message of its key: compaction keeps it."

    def _explain_readers(self, topic: TopicMetadata, row_key: bytes, facts: Facts) -> list[str]:
        """Explain what readers with a transaction do at an entry; add their stop to `facts`."""
        pointer = int(facts.get("write_pointer", PLAIN))
        if pointer < PLAIN:
            return ["It was rolled back: only readers without a transaction get it."]
        state = self.state()
        status = None if state is None else state.status(pointer)
        if status is TransactionStatus.INVALID:
            return [f"Its transaction is {status.value}."]
        stop = [] if state is None else self._explain_stop(state, topic, row_key, facts)
        if pointer == PLAIN:
            return [
                f"It belongs to no transaction{'' if stop else ': all readers get it'}.",
                *stop,
            ]
        if status is None:
            reason = "Its transaction is not known any more: it counts as committed."
            return [reason, *stop]
        return [f"Its transaction is {status.value}.", *stop]

    def _explain_stop(
        self, state: TransactionState, topic: TopicMetadata, row_key: bytes, facts: Facts
    ) -> list[str]:
        """Explain where readers of committed messages stop, at an entry or before it, if they do.

        An entry is written after its transaction began, so older entries are not read.
        """
        if not state.in_progress_count:
            return []
        begun_ms = min(info.started_ms for info in state.infos_in_progress())
        start_ms = max(begun_ms, topic.first_live_ms(self._now_ms))
        start = row_key[:-KEY_BYTES] + first_id_at(start_ms)[:KEY_BYTES]
        seal = self.seal(topic.id)
        behind = self.rows(MESSAGE, start, max(start, row_key + b"\x00"))
        for count, (key, value) in enumerate(behind, 1):
            pointer = entry_pointer_of(value)
            if state.is_in_progress(pointer) and seal.range_of(key[-KEY_BYTES:]) is None:
                info = state.info(state.id_of(pointer))
                facts["stopped_at"] = str(info.transaction_id)
                where = "at it"
                if key != row_key:
                    where = f"before it, at {(key[-KEY_BYTES:] + NO_PAYLOAD_KEY).hex()}"
                standing_text = standing(state.aged(info, self._transactions_ms))
                return [f"Readers of committed messages stop {where}: stopped at {standing_text}."]
            if count == _ROWS_LOOKED_AT and key != row_key:
                return [f"Whether they stop before it was only searched in {count} messages."]
        return []


def row_facts(table: str, row: Row) -> Facts:
    """Return the facts in a row. Raises `StoreCorrupt`."""
    key, value = row
    if table == METADATA:
        topic = decoded(key, value)
        return {"table": table, "topic": str(topic.id), "properties": topic.all_properties()}
    if table not in _OF_TOPICS:
        return {"table": table, "key": key.hex(), "value": _text(value)}
    topic_id, generation, start = prefix_of(key)
    facts: Facts = {"table": table, "topic": str(topic_id), "generation": generation}
    if table in (SUBSCRIPTION, GROUP):
        of_key = row_of_position if table == SUBSCRIPTION else _row_of_group_table
        return facts | {**of_key(start, key), "value": value.hex()}
    if table == PAYLOAD:
        facts["write_pointer"] = str(payload_pointer_of(key))
        if is_seal(key):
            return facts | {"seal": value.decode(errors="replace")}
        written_ms, number = KEY.unpack(payload_key_of(key))
        facts |= {"written_ms": written_ms, "sequence": number}
        return facts | _body_facts(value, is_framed=is_framed_payload(key))
    return facts | _entry_facts(key, value)


def _row_of_group_table(topic_prefix: bytes, key: bytes) -> Facts:
    """Return what the key of a row of the Group table says. Raises `StoreCorrupt`."""
    of_schedule = row_of_schedule(topic_prefix, key)
    return row_of_group(topic_prefix, key) if of_schedule is None else of_schedule


def _entry_facts(key: bytes, value: bytes) -> Facts:
    """Return the facts in a Message row about its entry."""
    published_ms, number = KEY.unpack(key[-KEY_BYTES:])
    facts: Facts = {"published_ms": published_ms, "sequence": number}
    facts["id"] = (key[-KEY_BYTES:] + NO_PAYLOAD_KEY).hex()
    pointer = entry_pointer_of(value)
    if value[0] in KINDS_WITHOUT_POINTER:
        is_framed = value[0] == FRAMED_KIND
        return facts | {"kind": "plain"} | _body_facts(value[1:], is_framed=is_framed)
    facts["write_pointer"] = str(pointer)
    if value[0] == REFERENCE_KIND:
        return facts | {"kind": "reference"}
    is_framed = value[0] == TRANSACTIONAL_FRAMED_KIND
    body = _body_facts(value[POINTER_END:], is_framed=is_framed)
    return facts | {"kind": "transactional"} | body


def _body_facts(body: bytes, *, is_framed: bool) -> Facts:
    """Return the facts in a message's body: its key and headers if any, and its payload."""
    if not is_framed:
        return {"payload": _text(body)}
    key, headers, has_payload, end = read_frame(body)
    facts: Facts = {} if key is None else {"key": _text(key)}
    if headers:
        facts["headers"] = {name: _text(value) for name, value in headers.items()}
    return facts | {"payload": _text(body[end:]) if has_payload else None}


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
