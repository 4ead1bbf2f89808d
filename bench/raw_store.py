"""Bare LevelDB: the limit that the disk and plyvel set, with the options that TMS uses."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.wrk import Run
from tables.leveldb_binding import plyvel

_PREFIX = b"mdefault:bench:\x00\x00\x00\x01"
_KEY_BYTES = 10
_FILL_ROWS = 10_000


class RawStore:
    """A LevelDB with rows of a kind byte and a payload of 100 bytes."""

    def __init__(self, handle: Any) -> None:
        self._db = handle
        self._rows = 0
        self._value = bytes(101)
        self._chance = random.Random(1)

    def _write(self, count: int, *, sync: bool) -> None:
        batch = self._db.write_batch(sync=sync)
        for number in range(self._rows, self._rows + count):
            batch.put(_PREFIX + number.to_bytes(_KEY_BYTES), self._value)
        batch.write()
        self._rows += count

    def write(self, rows_a_batch: int, seconds: float) -> Run:
        """Write synced batches one after another; a request of the run is a row."""
        times = []
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            self._write(rows_a_batch, sync=True)
            times.append(time.perf_counter() - started)
        return _run_of(times, rows_a_batch)

    def fill(self, rows: int) -> None:
        """Fill the store to at least `rows` rows."""
        while self._rows < rows:
            self._write(_FILL_ROWS, sync=False)

    def scan(self, rows_a_scan: int, seconds: float) -> Run:
        """Read `rows_a_scan` rows from random places; a request of the run is a row."""
        times = []
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            first = self._chance.randrange(max(1, self._rows - rows_a_scan))
            with self._db.iterator(
                start=_PREFIX + first.to_bytes(_KEY_BYTES), verify_checksums=True
            ) as rows:
                for _ in islice(rows, rows_a_scan):
                    pass
            times.append(time.perf_counter() - started)
        return _run_of(times, rows_a_scan)


def _run_of(times: list[float], requests_each: int) -> Run:
    seconds = sum(times)
    percentiles = quantiles([*times, *times], n=100)
    per_s = len(times) * requests_each / seconds
    return Run(seconds, per_s, 1000 * percentiles[49], 1000 * percentiles[98])


@contextmanager
def raw_store(folder: Path) -> Iterator[RawStore]:
    """Open a new LevelDB."""
    handle = plyvel.DB(
        str(folder),
        create_if_missing=True,
        error_if_exists=True,
        paranoid_checks=True,
        write_buffer_size=16 * 1024 * 1024,
        lru_cache_size=32 * 1024 * 1024,
        block_size=16 * 1024,
    )
    try:
        yield RawStore(handle)
    finally:
        handle.close()
