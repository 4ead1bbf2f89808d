"""The three tables, on every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables import keys
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.store import MESSAGE, METADATA, Store
from tables.store_tables import StoreTables
from tms.core.errors import StoreCorrupt
from tms.core.values.message import KEY, Message, MessageBlock, MessageId
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.table_rows import StoredPosition
from tms.core.values.topic import TopicId, TopicMetadata

TOPIC = TopicId("default", "t")
PREFIX = keys.prefix(TOPIC, 1)
POINTER = 1_800_000_000_000_000_000
KEYS = [KEY.pack(1_000, number) for number in range(6)]
BIG = 1_000_000


@pytest.fixture(params=["memory", "leveldb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = (
        MemoryStore() if request.param == "memory" else LevelDBStore(tmp_path, sync=False)
    )
    yield store
    store.close()


@pytest.fixture
def tables(store: Store) -> StoreTables:
    return StoreTables(store)


def write_mixed(tables: StoreTables) -> None:
    """Keys 0 and 1 plain, 2 and 3 transactional, 4 a reference, 5 plain."""
    batch = tables.batch()
    messages = tables.messages
    messages.append(batch, PREFIX, KEYS[:2], [b"a", b"b"], None)
    messages.append(batch, PREFIX, KEYS[2:4], [b"c", b""], POINTER)
    messages.append_reference(batch, PREFIX, KEYS[4], POINTER)
    messages.append(batch, PREFIX, KEYS[5:], [b"x" * 5000], None)
    # Neighbouring topics, which no read of the topic may touch.
    for other in (keys.prefix(TOPIC, 2), keys.prefix(TopicId("default", "t0"), 1)):
        messages.append(batch, other, KEYS[:1], [b"other"], None)
    tables.write(batch)


class TestMessages:
    def test_entries_of_all_kinds_are_read_in_order(self, tables: StoreTables) -> None:
        write_mixed(tables)
        entries, next_key = tables.messages.read(PREFIX, KEYS[0], limit=100, bytes_max=BIG)

        assert next_key is None
        assert [entries.key(i) for i in range(entries.count)] == KEYS
        assert list(entries.pointers or ()) == [0, 0, POINTER, POINTER, POINTER, 0]
        assert entries.references == {4}
        assert entries.offsets is not None
        assert entries.offsets[-1] == len(entries.items)

    def test_plain_entries_need_no_offsets(self, tables: StoreTables) -> None:
        write_mixed(tables)
        entries, next_key = tables.messages.read(PREFIX, KEYS[0], limit=2, bytes_max=BIG)

        assert (entries.count, entries.offsets, entries.pointers) == (2, None, None)
        assert next_key == KEYS[2]

    @pytest.mark.parametrize("limit", [1, 2, 3, 5])
    @pytest.mark.parametrize("bytes_max", [1, 2, BIG])
    def test_parts_add_up(self, tables: StoreTables, limit: int, bytes_max: int) -> None:
        write_mixed(tables)
        found: list[bytes] = []
        next_key: bytes | None = bytes(10)
        while next_key is not None:
            entries, next_key = tables.messages.read(
                PREFIX, next_key, limit=limit, bytes_max=bytes_max
            )
            assert entries.count <= limit
            found += [m.id[:10] for m in MessageBlock(entries.count, bytes(entries.items))]

        assert found == KEYS

    def test_the_last_key_is_of_any_generation_up_to_the_one_asked(
        self, tables: StoreTables
    ) -> None:
        assert tables.messages.last_keys(TOPIC, 1).greatest is None
        write_mixed(tables)

        assert tables.messages.last_keys(TOPIC, 1).greatest == KEYS[5]
        assert tables.messages.last_keys(TOPIC, 2).greatest == KEYS[0]
        assert tables.messages.last_keys(TOPIC, 3).greatest == KEYS[0]
        assert tables.messages.last_keys(TopicId("default", "absent"), 1).greatest is None

    def test_own_entries_are_distinguished_from_foreign_ones_and_inverted_once(
        self, tables: StoreTables
    ) -> None:
        write_mixed(tables)
        some = tables.messages.own_entries(PREFIX, KEYS[0], KEYS[5], POINTER, limit=9, bytes_max=1)
        assert ([key[-10:] for key, _ in some.rows], some.next_key) == (KEYS[2:3], KEYS[3])
        own = tables.messages.own_entries(PREFIX, KEYS[0], KEYS[5], POINTER, limit=9, bytes_max=BIG)
        assert ([key[-10:] for key, _ in own.rows], own.own, own.foreign) == (KEYS[2:5], 3, 3)
        batch = tables.batch()
        tables.messages.invert(batch, own.rows)
        tables.write(batch)

        again = tables.messages.own_entries(
            PREFIX, KEYS[0], KEYS[5], POINTER, limit=9, bytes_max=BIG
        )
        assert (again.rows, again.own, again.foreign) == ([], 3, 3)
        entries, _ = tables.messages.read(PREFIX, KEYS[0], limit=100, bytes_max=BIG)
        assert list(entries.pointers or ()) == [0, 0, -POINTER, -POINTER, -POINTER, 0]
        assert entries.references == {4}

    @pytest.mark.parametrize("value", [b"", b"\x07abc", b"\x01"])
    def test_a_damaged_row_is_named(self, tables: StoreTables, store: Store, value: bytes) -> None:
        batch = store.batch()
        batch.put(MESSAGE, PREFIX + KEYS[0], value)
        store.write(batch)
        with pytest.raises(StoreCorrupt):
            tables.messages.read(PREFIX, KEYS[0], limit=1, bytes_max=BIG)


class TestPayloads:
    def test_they_are_read_as_messages_under_a_reference(self, tables: StoreTables) -> None:
        batch = tables.batch()
        tables.payloads.append(batch, PREFIX, POINTER, KEYS[:3], [b"a", b"b" * 300, b""])
        tables.payloads.append(batch, PREFIX, POINTER + 1, KEYS[:1], [b"other"])
        tables.write(batch)

        expected = [
            Message(payload, id=MessageId(7, 8, 1_000, i).encode())
            for i, payload in enumerate([b"a", b"b" * 300, b""])
        ]
        message_key = KEY.pack(7, 8)
        for limit, bytes_max in ((100, BIG), (1, BIG), (2, BIG), (100, 1)):
            found: list[Message] = []
            next_key: bytes | None = bytes(10)
            while next_key is not None:
                block, next_key = tables.payloads.read(
                    PREFIX, -POINTER, message_key, next_key, limit=limit, bytes_max=bytes_max
                )
                assert 0 < block.count <= limit
                found += block
            assert found == expected
        assert tables.payloads.last_key(PREFIX, POINTER) == KEYS[2]
        assert tables.payloads.last_key(PREFIX, POINTER + 2) is None


class TestMetadata:
    def test_a_topic_is_replaced_only_as_it_was_read(self, tables: StoreTables) -> None:
        topic = TopicMetadata(TOPIC, 1, 60, {"b": "ä", "a": "1"})
        deleted = TopicMetadata(TOPIC, -1, 60, topic.properties)

        assert tables.metadata.get(TOPIC) is None
        assert tables.metadata.replace(None, topic)
        assert not tables.metadata.replace(None, topic)
        assert tables.metadata.get(TOPIC) == topic
        assert tables.metadata.replace(topic, deleted)
        assert not tables.metadata.replace(topic, deleted)
        assert tables.metadata.get(TOPIC) == deleted

    def test_the_value_is_sorted_json_of_strings(self, tables: StoreTables, store: Store) -> None:
        tables.metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {"owner": "me"}))

        value = store.get(METADATA, b"default:t:")
        assert value == b'{"generation":"1","owner":"me","ttl":"60"}'

    def test_a_scan_gives_a_namespace_or_all(
        self, tables: StoreTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tables.metadata_table._SCAN_ROWS", 2)
        names = ["a", "b", "c", "d", "e"]
        topics = [
            TopicMetadata(TopicId(ns, n), 1, 60, {}) for ns in ("m", "n", "na") for n in names
        ]
        for topic in topics:
            tables.metadata.replace(None, topic)

        assert [t.id.name for t in tables.metadata.scan("n")] == names
        assert list(tables.metadata.scan()) == topics
        assert list(tables.metadata.scan("absent")) == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_topics_that_exist_are_counted_part_by_part(
        self, tables: StoreTables, store: Store, limit: int
    ) -> None:
        for number, generation in enumerate((1, -1, 7, -7, 1)):
            topic = TopicMetadata(TopicId("n", f"t{number}"), generation, 60, {})
            tables.metadata.replace(None, topic)
        store.compare_and_put(METADATA, b"n:damaged:", None, b"")

        counts, start = 0, b""
        while True:
            count, following = tables.metadata.count(start, limit=limit)
            assert count <= limit
            counts += count
            if following is None:
                break
            start = following
        assert counts == 4

    @pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"ttl":"0","generation":"1"}', b"\xff"])
    def test_a_damaged_row_is_named(self, tables: StoreTables, store: Store, value: bytes) -> None:
        store.compare_and_put(METADATA, b"default:t:", None, value)
        with pytest.raises(StoreCorrupt):
            tables.metadata.get(TOPIC)


class TestSubscriptions:
    def test_a_scan_gives_those_of_all_topics_and_generations(self, tables: StoreTables) -> None:
        written = []
        batch = tables.batch()
        for topic_id, generation in ((TOPIC, 1), (TOPIC, 2), (TopicId("n", "colon"), 58)):
            prefix = keys.prefix(topic_id, generation)
            for name in ("a", "b.c"):
                position = SubscriptionPosition(topic_id, name, None, 5)
                tables.subscriptions.put(batch, prefix, position)
                written.append(StoredPosition(prefix, generation, position))
        tables.write(batch)

        assert tables.subscriptions.scan(limit=100) == written
        assert tables.subscriptions.scan(limit=3) == written[:3]
