"""Stores that are backed up by tests: filled with numbered batches, each of which is complete."""

import random
from typing import Any

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE

LAST = b"last"


def facts(created_ms: int = 1) -> dict[str, Any]:
    return {"created_ms": created_ms, "tms": "0", "metadata": "in the store"}


def ignore(done: int, size: int) -> None:
    assert 0 <= done <= size


def fill(store: LevelDBStore, number: int, rows: int = 300) -> None:
    """Write rows that fill several tables, then one with the batch number."""
    batch = store.batch()
    for row in range(rows):
        batch.put(MESSAGE, b"%06d.%06d" % (number, row), random.Random(row).randbytes(500))
    batch.put(MESSAGE, LAST, b"%d" % number)
    store.write(batch)


def last_in(store: LevelDBStore) -> int:
    """Return the last batch's number; check that it and all earlier batches are complete."""
    number = int(store.get(MESSAGE, LAST) or 0)
    with store.scan(MESSAGE, b"", b"\xff") as rows:
        keys = [key for key, _ in rows if key != LAST]
    assert len(keys) == 300 * number
    assert all(int(key[:6]) <= number for key in keys)
    return number
