"""LevelDB reports that it has too much to merge before it makes every write wait."""

import random
from pathlib import Path

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE
from tests.waiting import wait_until

BATCHES_MAX = 1_000_000


def test_it_is_behind_while_it_has_much_to_merge_and_then_no_more(tmp_path: Path) -> None:
    store = LevelDBStore(tmp_path / "data", sync=False, write_buffer_bytes=64 * 1024)
    chance = random.Random(1)
    assert not store.is_behind()

    for _ in range(BATCHES_MAX):
        batch = store.batch()
        batch.put(MESSAGE, chance.randbytes(20), chance.randbytes(4_000))
        store.write(batch)
        if store.is_behind():
            break
    assert store.is_behind()
    wait_until(lambda: not store.is_behind())

    store.close()
    assert not store.is_behind()
