"""The contract of the Group table on every Store. A subclass provides the fixture `tables`."""

from collections.abc import Iterator

import pytest

from tables.group_table import StoredGroup, StoreGroupLog
from tables.store import GROUP
from tables.store_tables import StoreTables
from tests.tables.stored_groups import append
from tms.core.errors import StoreCorrupt
from tms.core.values.store_features import GROUPS
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "orders")
OTHER = TopicId("default", "orders2")
CREATED = 1_790_000_000_000_000
BIG = bytes(range(256)) * (4096 * 2) + b"the rest"
"""A value of two chunks and a bit."""


def begin(
    tables: StoreTables, name: str = "g", created: int = CREATED, topic: TopicId = TOPIC
) -> StoreGroupLog:
    batch = tables.batch()
    log = tables.groups.begin(batch, tables.prefix(topic, 1), name, created, b"begun")
    tables.write(batch)
    return log


def read(tables: StoreTables, name: str = "g", created: int = CREATED) -> StoredGroup:
    return tables.groups.read(tables.prefix(TOPIC, 1), name, created)


def all_keys(tables: StoreTables) -> list[bytes]:
    with tables.store.scan(GROUP, b"", b"\xff") as rows:
        return [key for key, _ in rows]


def delete(tables: StoreTables, *keys: bytes) -> None:
    batch = tables.batch()
    batch.delete_rows(GROUP, keys)
    tables.write(batch)


class GroupTableContract:
    @pytest.fixture
    def tables(self) -> Iterator[StoreTables]:
        raise AssertionError("a subclass gives the tables")

    @pytest.fixture(autouse=True)
    def _has_feature(self, tables: StoreTables) -> None:
        tables.add_feature(GROUPS)
        delete(tables, *all_keys(tables))

    def test_a_group_is_read_as_it_was_begun_and_appended_to(self, tables: StoreTables) -> None:
        log = begin(tables)
        for other in ("g.x", "f"):
            begin(tables, other)
        begin(tables, topic=OTHER)
        assert read(tables)[1:] == (CREATED, b"begun", [])
        append(tables, log, b"one", b"two")

        found = read(tables)
        assert found[1:] == (CREATED, b"begun", [b"one", b"two"])
        assert (found.log.next_number, found.log.is_own) == (CREATED + 2, True)
        assert not found.log.has_older
        assert read(tables, "g.x").rows == read(tables, "f").rows == []

    @pytest.mark.parametrize("snapshot", [b"", b"small", BIG])
    def test_a_snapshot_stands_for_the_rows_below_it(
        self, tables: StoreTables, snapshot: bytes
    ) -> None:
        log = begin(tables)
        append(tables, log, b"one", b"two")
        log.put_snapshot(CREATED + 1, snapshot)
        append(tables, log, b"three")

        for _ in range(2):
            found = read(tables)
            assert found[1:] == (CREATED + 1, snapshot, [b"two", b"three"])
            assert found.log.has_older
            while found.log.drop(2):
                pass
            assert not found.log.has_older
        number = CREATED + 3
        found.log.put_snapshot(number, b"later")
        assert read(tables)[1:] == (number, b"later", [])

    def test_what_is_below_the_latest_snapshot_goes_and_nothing_else(
        self, tables: StoreTables
    ) -> None:
        for other in ("a", "z"):
            begin(tables, other)
        others = all_keys(tables)
        log = begin(tables)
        for number in range(3):
            append(tables, log, b"x", b"y")
            log.put_snapshot(CREATED + 2 * number + 1, BIG)
        counts = [log.drop(4) for _ in range(10)]

        assert sum(counts) >= 5 + 3 + 3 + 2
        assert counts[-1] == 0
        assert not log.has_older
        own = set(all_keys(tables)) - set(others)
        assert len(own) == 1 + 3 + 1 + 3, "a row, chunks and the end of the snapshot; fences"
        assert len(all_keys(tables)) == len(own) + len(others)
        assert read(tables)[1:] == (CREATED + 5, BIG, [b"y"])

    def test_a_deleted_group_leaves_nothing(self, tables: StoreTables) -> None:
        log = begin(tables)
        append(tables, log, *[b"x"] * 5)
        log.put_snapshot(CREATED + 3, BIG)
        log.drop(2)
        batch = tables.batch()
        read(tables).log.delete(batch)
        tables.write(batch)

        assert all_keys(tables) == []
        with pytest.raises(StoreCorrupt, match="no snapshot"):
            read(tables)

    def test_one_that_is_begun_again_has_nothing_of_before(self, tables: StoreTables) -> None:
        log = begin(tables)
        append(tables, log, b"one", b"two")
        log.put_snapshot(CREATED + 1, b"old")
        again = begin(tables, created=CREATED + 100)
        append(tables, log, b"late")
        append(tables, again, b"new")

        assert read(tables, created=CREATED + 100)[1:] == (CREATED + 100, b"begun", [b"new"])
        with pytest.raises(StoreCorrupt, match="no snapshot"):
            read(tables, created=CREATED + 101)

    def test_each_row_that_counts_is_missed(self, tables: StoreTables) -> None:
        log = begin(tables)
        append(tables, log, b"one", b"two")
        log.put_snapshot(CREATED + 1, BIG)
        append(tables, log, b"three", b"four", b"five")
        while log.drop(100):
            pass
        expected = read(tables)[1:]
        for key in all_keys(tables):
            value = tables.store.get(GROUP, key)
            assert value is not None
            delete(tables, key)
            is_last = key[-8:] == (CREATED + 4).to_bytes(8) and b"\x00g" in key
            if value == b"" or is_last:
                read(tables)  # the search needs only one fence; nothing refers to the last row
            else:
                with pytest.raises(StoreCorrupt):
                    read(tables)
            batch = tables.batch()
            batch.put(GROUP, key, value)
            tables.write(batch)
        assert read(tables)[1:] == expected

    @pytest.mark.parametrize("at", [0, 1024 * 1024, -1])
    def test_a_flipped_bit_of_a_snapshot_is_damage(self, tables: StoreTables, at: int) -> None:
        begin(tables).put_snapshot(CREATED, b"as it was begun")
        log = read(tables).log
        append(tables, log, b"one")
        log.put_snapshot(CREATED + 1, BIG)
        chunks = [key for key in all_keys(tables) if b"\x00s" in key and key[-2] == 0][1:]
        key = chunks[at // (1024 * 1024)]
        value = bytearray(tables.store.get(GROUP, key) or b"")
        value[at % len(value)] ^= 1
        batch = tables.batch()
        batch.put(GROUP, key, bytes(value))
        tables.write(batch)

        with pytest.raises(StoreCorrupt):
            read(tables)

    def test_a_snapshot_that_was_not_put_whole_is_none_and_goes_with_the_next(
        self, tables: StoreTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = begin(tables)
        append(tables, log, b"one", b"two")
        left = 2
        write = tables.store.write

        def die(batch: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            write(batch)  # type: ignore[arg-type]

        monkeypatch.setattr(tables.store, "write", die)
        with pytest.raises(KeyboardInterrupt):
            log.put_snapshot(CREATED + 2, BIG)
        monkeypatch.undo()

        found = read(tables)
        assert found[1:] == (CREATED, b"begun", [b"one", b"two"])
        found.log.drop(100)
        append(tables, found.log, b"three")
        assert read(tables).rows == [b"one", b"two", b"three"]
        found.log.put_snapshot(CREATED + 3, b"whole")
        while found.log.drop(100):
            pass
        assert read(tables)[1:] == (CREATED + 3, b"whole", [])
        assert len(all_keys(tables)) == 1 + 1 + 3, "a chunk and the end of the snapshot; fences"
