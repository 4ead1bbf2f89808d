"""Disk space is freed: over rounds of publishing and expiry the folder does not grow."""

import random
from pathlib import Path

import pytest

from cleanup.cleaner import Cleaner
from tables.keys import PLAIN_START, prefix
from tables.leveldb import LevelDBStore
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE
from tests.cleanup.nobody import NoServices
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata

pytestmark = pytest.mark.slow

NOW_MS = 1_800_000_000_000
ROUNDS = 20
ROWS = 30_000
PAYLOAD_BYTES = 200
"""The size of payloads of random bytes, which LevelDB cannot compress."""


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("deletes", [False, True])
def test_sizes_stay_level(tmp_path: Path, *, deletes: bool) -> None:
    store = LevelDBStore(tmp_path, sync=False, write_buffer_bytes=1024 * 1024)
    clock = ManualClock(NOW_MS)
    cleaner = Cleaner(store, NoServices(store), Limits(), clock)
    topics = StoreMetadataTable(store)
    topic = TopicMetadata(TopicId("ns", "t"), 1, 60, {})
    topics.replace(None, topic)
    chance = random.Random(1)
    sizes = []
    for number in range(ROUNDS):
        batch = store.batch()
        start = prefix(topic.id, topic.generation)
        for n in range(ROWS):
            value = PLAIN_START + chance.randbytes(PAYLOAD_BYTES)
            batch.put(MESSAGE, start + KEY.pack(clock.now_ms(), n), value)
        store.write(batch)
        assert bytes_in(tmp_path) > ROWS * PAYLOAD_BYTES
        if deletes:
            after = TopicMetadata(topic.id, number + 2, 60, {})
            topics.replace(topic, after)
            topic = after
        clock.advance(61_000)
        list(cleaner.steps())
        sizes.append(bytes_in(tmp_path))
    store.close()

    # LevelDB's own info log grows a little with each round.
    assert max(sizes) < ROWS * PAYLOAD_BYTES / 10
