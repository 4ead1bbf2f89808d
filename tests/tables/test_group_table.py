"""The Group table in memory and on LevelDB, and the cost of its searches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.group_table import row_of_group
from tables.keys import after_prefix, prefix
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import GROUP
from tables.store_tables import StoreTables
from tests.contracts.group_table_contract import (
    CREATED,
    OTHER,
    TOPIC,
    GroupTableContract,
    begin,
    read,
)
from tests.tables.stepping_store import SteppingStore
from tests.tables.stored_groups import append
from tms.core.errors import StoreCorrupt, StoreUnavailable


class TestInMemory(GroupTableContract):
    @pytest.fixture
    def tables(self) -> Iterator[StoreTables]:
        tables = StoreTables(MemoryStore())
        yield tables
        tables.close()


class TestOnLevelDB(GroupTableContract):
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Iterator[StoreTables]:
        tables = StoreTables(LevelDBStore(tmp_path, sync=False))
        yield tables
        tables.close()


class TestSealed(GroupTableContract):
    @pytest.fixture
    def tables(self) -> Iterator[StoreTables]:
        tables = SealedTables(SealedStore(MemoryStore()))
        yield tables
        tables.close()


def use(tables: StoreTables, name: str, rounds: int) -> None:
    """Continue a group as its service does."""
    log = read(tables, name).log
    for _ in range(rounds):
        append(tables, log, *[b"row"] * 20)
        log.put_snapshot(log.next_number - 1, b"snapshot")
        while log.drop(7):
            pass


def test_what_was_deleted_is_never_stepped_over() -> None:
    """As in a LevelDB that has merged nothing for an hour."""
    store = SteppingStore()
    tables = StoreTables(store)
    begin(tables, topic=OTHER)
    for name in ("a", "b", "c"):
        begin(tables, name)
    for _ in range(3):
        for name in ("a", "b", "c"):
            use(tables, name, 5)
    batch = tables.batch()
    read(tables, "b").log.delete(batch)
    tables.write(batch)
    assert len(read(tables, "a").rows) == len(read(tables, "c").rows) == 1
    for topic_id, name in ((TOPIC, "a"), (TOPIC, "c"), (OTHER, "g")):
        tables.groups.read(tables.prefix(topic_id, 1), name, CREATED)
    # Cleanup searches like this for rows of a dead earlier generation.
    with store.scan(GROUP, prefix(TOPIC, 0), prefix(TOPIC, 1)) as rows:
        assert list(rows) == []

    assert store.stepped == 0


def test_a_drop_is_repeated_where_a_row_may_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = StoreTables(MemoryStore())
    log = begin(tables)
    append(tables, log, b"one", b"two")
    log.put_snapshot(CREATED + 2, b"x")

    def refuse(*_: object) -> None:
        raise StoreUnavailable(reason="late")

    with monkeypatch.context() as patched:
        patched.setattr(tables.store, "check_unanswered", refuse)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                log.drop(1)
        with pytest.raises(StoreUnavailable):
            log.delete(tables.batch())
    while log.drop(1):
        pass

    with tables.store.scan(GROUP, b"", b"\xff") as rows:
        assert len(list(rows)) == 1 + 1 + 3


def test_a_row_says_what_it_is() -> None:
    tables = StoreTables(MemoryStore())
    log = begin(tables, "bill.1")
    append(tables, log, b"row")
    start = prefix(TOPIC, 1)
    with tables.store.scan(GROUP, start, after_prefix(start)) as rows:
        keys = [key for key, _ in rows]
    told = [row_of_group(start, key) for key in keys]

    assert all(each.pop("group") == "bill.1" for each in told)
    assert told == [
        {"fence": True},
        {"token": 0, "number": CREATED},
        {"fence": True},
        {"token": 0, "snapshot": CREATED, "chunk": 0},
        {"token": 0, "snapshot": CREATED, "end": True},
        {"fence": True},
    ]
    for wrong in (b"", b"\x00g", b"\x00gname", b"\x00g\x00", b"\x00sname\x00", b"\x00gname\x00x"):
        with pytest.raises(StoreCorrupt):
            row_of_group(start, start + wrong)
