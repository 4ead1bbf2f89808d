"""From a data folder to HBase and back: readers see the same."""

import asyncio
from pathlib import Path

import pytest

from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tests.tables.copies import copy, fill, seen_in

pytestmark = pytest.mark.slow


@pytest.fixture
def url(place: Place, hbase_store: HBaseStore) -> str:
    return f"hbase://{place.host}:{place.port}/{place.prefix}"


def test_from_leveldb_to_hbase_and_back(url: str, tmp_path: Path) -> None:
    before, back = f"leveldb:{tmp_path}/before", f"leveldb:{tmp_path}/back"
    seen = asyncio.run(fill(before))
    there = copy(before, url)
    assert there["target_transactions"] == "the source's"
    assert copy(url, back)["copied_rows"] == there["copied_rows"]

    for store in (url, back):
        copied, topic, last = asyncio.run(seen_in(store))
        assert copied == seen
        assert topic.generation == 2
        assert last > max(message_id for message_id, _ in seen[True])
