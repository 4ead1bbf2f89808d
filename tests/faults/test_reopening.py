"""LevelDB is reopened after a failed write, with calls in progress, and after a crash."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE
from tms.core.errors import StoreUnavailable


@pytest.mark.parametrize(
    "left",
    [
        {"tms.lock": b""},
        {"tms.lock": b'{"pid": 1', "format.draft": b'{"for'},
        {"tms.creating": b"", "leveldb/LOCK": b""},
        {"tms.creating": b"", "leveldb/MANIFEST-000001": b"torn"},
        {"tms.creating": b"", "leveldb/000001.dbtmp": b"MANIFEST-000001"},
    ],
    ids=lambda left: list(left)[-1],
)
def test_what_a_crash_leaves_of_a_first_opening_is_opened(
    tmp_path: Path, left: dict[str, bytes]
) -> None:
    for name, content in left.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    for _ in range(2):
        store = LevelDBStore(tmp_path)
        batch = store.batch()
        batch.put(MESSAGE, b"k", b"v")
        store.write(batch)
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LevelDBStore]:
    store = LevelDBStore(tmp_path)
    yield store
    store.close()


def test_a_batch_made_before_is_refused_as_unavailable(store: LevelDBStore) -> None:
    batch = store.batch()
    batch.put(MESSAGE, b"k", b"v")
    store._exchange_handle()

    with pytest.raises(StoreUnavailable):
        batch.put(MESSAGE, b"k", b"v")
    with pytest.raises(StoreUnavailable):
        batch.put_rows(MESSAGE, [(b"k", b"v")])
    with pytest.raises(StoreUnavailable):
        batch.delete(MESSAGE, b"k")
    with pytest.raises(StoreUnavailable):
        store.write(batch)

    assert store.get(MESSAGE, b"k") is None
    after = store.batch()
    after.put(MESSAGE, b"k", b"v")
    store.write(after)
    assert store.get(MESSAGE, b"k") == b"v"


def test_no_batch_is_made_while_writes_are_refused(store: LevelDBStore) -> None:
    store._failure = "a full disk"

    with pytest.raises(StoreUnavailable, match="a full disk"):
        store.batch()
