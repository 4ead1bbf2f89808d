"""A LevelDB that is opened anew after a failed write, seen from the calls under way meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE
from tms.core.errors import StoreUnavailable


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
