"""The store contract in memory and on this machine's disk, and what the store on disk keeps."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tables.coordination_rows import CoordinationRows
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tests.contracts.metadata_store_contract import MetadataStoreContract, Sessions
from tests.metadata.rows import FailingRows
from tms.core.errors import (
    MetadataClosed,
    MetadataUnavailable,
    StoreCorrupt,
    StoreFormatUnknown,
)
from tms.metadata.host import MetadataHost, open_host
from tms.metadata.interface import NEW, Change, MetadataStore, Notification
from tms.metadata.journal import MetadataJournal
from tms.metadata.memory import open_memory

pytestmark = pytest.mark.anyio


def sessions_of(host: MetadataHost) -> Sessions:
    async def session() -> MetadataStore:
        return host.open_session()

    return session


class TestMemory(MetadataStoreContract):
    @pytest.fixture
    async def sessions(self) -> Sessions:
        return sessions_of(MetadataHost())


class TestLocalOverMemory(MetadataStoreContract):
    @pytest.fixture
    async def sessions(self) -> AsyncIterator[Sessions]:
        host = await open_host(MetadataJournal(CoordinationRows(MemoryStore())))
        yield sessions_of(host)
        await host.close()


class TestLocalOverLevelDB(MetadataStoreContract):
    @pytest.fixture
    async def sessions(self, tmp_path: Path) -> AsyncIterator[Sessions]:
        store = LevelDBStore(tmp_path / "data")
        host = await open_host(MetadataJournal(CoordinationRows(store)))
        yield sessions_of(host)
        await host.close()
        store.close()


async def test_values_outlive_the_process_and_ephemeral_ones_do_not(tmp_path: Path) -> None:
    store = LevelDBStore(tmp_path / "data")
    first = (await open_host(MetadataJournal(CoordinationRows(store)))).open_session()
    await first.put("/kept", b"0")
    kept = await first.put("/kept", b"1")
    lost = await first.put("/lost", b"", ephemeral=True)
    store.close()

    store = LevelDBStore(tmp_path / "data")
    second = (await open_host(MetadataJournal(CoordinationRows(store)))).open_session()
    found = await second.get("/kept")
    assert found == (b"1", kept)
    assert await second.get("/lost") is None
    assert (await second.put("/lost", b"", NEW)).created_revision > lost.created_revision
    store.close()


async def test_a_revision_never_comes_again_after_a_restart() -> None:
    rows = CoordinationRows(MemoryStore())
    revisions = []
    for _ in range(4):
        session = (await open_host(MetadataJournal(rows))).open_session()
        revisions.append((await session.put("/k", b"", NEW)).created_revision)
        await session.delete("/k")
        await session.close()

    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_failed_write_is_settled_before_the_next(how: str) -> None:
    rows = FailingRows()
    host = await open_host(MetadataJournal(rows))
    session = host.open_session()
    told: list[Notification] = []
    session.observe(told.append)
    await session.put("/k", b"old")
    await session.put("/own", b"", ephemeral=True)
    rows.fail_next = how
    with pytest.raises(MetadataUnavailable):
        await session.put("/k", b"new")
    await session.put("/other", b"")

    found = await session.get("/k")
    assert found is not None
    assert found.value == (b"old" if how == "before" else b"new")
    assert (Change.MODIFIED, "/k") in told or how == "before"
    own = await session.get("/own")
    assert own is not None
    assert own.stat.created_by_self
    assert dict((await open_host(MetadataJournal(rows))).tree.nodes()).keys() == {"/k", "/other"}


async def test_an_ephemeral_value_of_a_failed_write_belongs_to_nobody() -> None:
    rows = FailingRows()
    session = (await open_host(MetadataJournal(rows))).open_session()
    rows.fail_next = "after"
    with pytest.raises(MetadataUnavailable):
        await session.put("/e", b"", ephemeral=True)
    stat = await session.put("/e", b"", NEW, ephemeral=True)

    assert stat.created_by_self


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"/k", b"\x01short", StoreCorrupt),
        (b"/k", b"", StoreCorrupt),
        (b"/k", b"\x02" + bytes(60), StoreFormatUnknown),
        (b"\xff", b"\x01" + bytes(60), StoreCorrupt),
        (b"\x00", b"short", StoreCorrupt),
    ],
)
async def test_damaged_rows_are_not_passed_over(
    key: bytes, value: bytes, error: type[Exception]
) -> None:
    rows = CoordinationRows(MemoryStore())
    rows.write([(key, value)])

    with pytest.raises(error):
        await open_host(MetadataJournal(rows))


async def test_a_name_is_one_store_in_this_process() -> None:
    first, second = open_memory("shared"), open_memory("shared")
    await first.put("/k", b"")
    assert await second.exists("/k")
    assert not await open_memory().exists("/k")
    await first.close()
    await second.close()

    assert not await open_memory("shared").exists("/k")


async def test_a_closed_host_opens_no_session() -> None:
    host = MetadataHost()
    session = host.open_session()
    await host.close()

    assert not session.is_connected
    with pytest.raises(MetadataClosed):
        host.open_session()
