"""LevelDB says in time that it has too much to merge: before it makes every write wait."""

import random
import time
from pathlib import Path

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE

DEADLINE_S = 30.0


def test_it_is_behind_while_it_has_much_to_merge_and_then_no_more(tmp_path: Path) -> None:
    store = LevelDBStore(tmp_path / "data", sync=False, write_buffer_bytes=64 * 1024)
    chance = random.Random(1)
    deadline = time.monotonic() + DEADLINE_S
    assert not store.is_behind()

    while not store.is_behind():
        assert time.monotonic() < deadline
        batch = store.batch()
        batch.put(MESSAGE, chance.randbytes(20), chance.randbytes(4_000))
        store.write(batch)
    while store.is_behind():
        assert time.monotonic() < deadline
        time.sleep(0.01)

    store.close()
    assert not store.is_behind()
