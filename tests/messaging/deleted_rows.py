"""The effect of cleanup's deletions on the model of the service."""

from collections.abc import Mapping

from tables.keys import after_prefix, payload_key_of, payload_prefix, prefix, run_prefix_of
from tables.store import MESSAGE, PAYLOAD, Store
from tests.messaging.model import ModelTopic
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId


def take_in_what_was_deleted(
    topics: Mapping[str, ModelTopic], store: Store, deleted_ms: int
) -> None:
    """Remove messages deleted by cleanup from the model; check that they had expired."""
    for name, topic in topics.items():
        live_ms = topic.first_live_ms(deleted_ms)
        start = prefix(TopicId("default", name), topic.number)
        messages, payloads = _keys(store, MESSAGE, start), _keys(store, PAYLOAD, start)
        data = topic.data
        gone = [e for e in data.entries if start + KEY.pack(*e.key) not in messages]
        assert not topic.exists or all(entry.key[0] < live_ms for entry in gone)
        data.entries = [entry for entry in data.entries if entry not in gone]
        for pointer, rows in data.stored.items():
            run = payload_prefix(start, pointer)
            left = [row for row in rows if run + KEY.pack(*row[0]) in payloads]
            gone_ms = [row[0][0] for row in rows if row not in left]
            assert not topic.exists or all(written_ms < live_ms for written_ms in gone_ms)
            data.stored[pointer] = left


def _keys(store: Store, table: str, start: bytes) -> set[bytes]:
    with store.scan(table, start, after_prefix(start)) as rows:
        found = [key for key, _ in rows]
    if table == MESSAGE:
        return set(found)
    return {run_prefix_of(key) + payload_key_of(key) for key in found}
