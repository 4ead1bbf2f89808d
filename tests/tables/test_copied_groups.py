"""A copy has the groups of its source: the rows that count, as in an unsharded store."""

from pathlib import Path

import pytest

from tables.copying import Copying
from tables.keys import prefix
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.store import GROUP, Store
from tables.store_tables import StoreTables
from tests.contracts.store_contract import put, rows_of
from tests.tables.stored_groups import CREATED, ORDERS, append, create_group, create_topic
from tms.core.errors import CopyRefused, StoreCorrupt
from tms.core.values.store_features import GROUPS

BIG = bytes(3 * 1024 * 1024)


@pytest.fixture
def source() -> StoreTables:
    """A topic with two groups, one of which has obsolete rows."""
    tables = StoreTables(MemoryStore())
    create_topic(tables)
    log = create_group(tables, "billing")
    create_group(tables, "billing.2")
    append(tables, log, b"one", b"two")
    log.put_snapshot(CREATED + 1, BIG)
    append(tables, log, b"three")
    put(tables.store, GROUP, (prefix(ORDERS, 1) + b"\x00ggone\x00" + bytes(16), b"left"))
    return tables


def copy(source: Store, target: Store) -> int:
    copying = Copying(source, target, "a")
    copying.check()
    return sum(step.copied_rows for step in copying.steps((), ()))


@pytest.mark.parametrize("broken_off", range(4))
def test_groups_are_copied_wherever_it_was_interrupted(
    source: StoreTables, tmp_path: Path, broken_off: int
) -> None:
    target = LevelDBStore(tmp_path, sync=False)
    steps = Copying(source.store, target, "a").steps((), ())
    for _ in range(broken_off):
        next(steps)
    steps.close()
    copy(source.store, target)
    assert copy(source.store, target) == 0
    tables = StoreTables(target)
    start = prefix(ORDERS, 1)

    assert target.features() == {GROUPS}
    for name in ("billing", "billing.2"):
        mine, theirs = (each.groups.read(start, name, CREATED) for each in (source, tables))
        assert mine[1:] == theirs[1:]
        assert not theirs.log.has_older
    assert tables.subscriptions.read(ORDERS, start) == source.subscriptions.read(ORDERS, start)
    assert len(rows_of(target, GROUP)) == (3 + 2 + 4 + 1) + (3 + 2)
    target.close()


def test_a_store_without_groups_gives_no_feature(tmp_path: Path) -> None:
    tables, target = StoreTables(MemoryStore()), LevelDBStore(tmp_path, sync=False)
    create_topic(tables)
    copy(tables.store, target)

    assert target.features() == frozenset()
    target.close()


@pytest.mark.parametrize("goes_on", ["source", "target"])
def test_a_group_that_went_on_since_is_noticed(source: StoreTables, goes_on: str) -> None:
    target = StoreTables(MemoryStore())
    copy(source.store, target.store)
    changed = source if goes_on == "source" else target
    append(changed, changed.groups.read(prefix(ORDERS, 1), "billing", CREATED).log, b"more")

    with pytest.raises(CopyRefused, match="has changed"):
        copy(source.store, target.store)


def test_a_damaged_group_is_not_copied(source: StoreTables) -> None:
    batch = source.batch()
    batch.delete(GROUP, prefix(ORDERS, 1) + b"\x00gbilling\x00" + (CREATED + 1).to_bytes(16))
    source.write(batch)

    with pytest.raises(StoreCorrupt, match="a row is missing"):
        copy(source.store, MemoryStore())
