"""The recorded format of a store: raised by a standalone server, or on request."""

from dataclasses import replace

import pytest

from tables.hbase.creation import create
from tables.hbase.format_row import recorded
from tables.hbase.layout import FORMAT_KEY, Place, format_row
from tables.hbase.opening import open_store
from tables.hbase.writes import Run
from tables.metadata_table import StoreMetadataTable
from tables.store import GROUP, METADATA
from tests.tables.hbase.conftest import gateway_to
from tms.core.values.store_features import GROUPS

pytestmark = pytest.mark.slow


def test_a_store_of_format_1_is_raised_by_a_server_alone_or_by_a_leader_when_told_to(
    place: Place,
) -> None:
    own = replace(place, prefix=f"{place.prefix}format", buckets=1)
    url = f"hbase://{own.host}:{own.port}/{own.prefix}"
    gateway = gateway_to(own)
    create(own, gateway)
    present = format_row(1)
    old = present.replace(b'"format": 2', b'"format": 1')
    assert recorded(own, gateway) == present
    store = open_store(url)
    row = b'{"generation":"1","live_from_ms":"99999999999999","ttl":"5"}'
    store.carry_out([Run(METADATA, is_delete=False, rows={FORMAT_KEY: old, b"\x00n:t:": row})])
    store.close()

    store = open_store(url)
    [topic] = StoreMetadataTable(store).scan()
    assert (topic.live_from_ms, topic.properties) == (0, {"user.live_from_ms": "99999999999999"})
    assert store.get(METADATA, b"n:t:") == row
    store.close()
    assert recorded(own, gateway) == old
    store = open_store(url, takes_over=True)
    assert [*StoreMetadataTable(store).scan()] == [topic]
    renamed = b'{"generation":"1","ttl":"5","user.live_from_ms":"99999999999999"}'
    assert store.get(METADATA, b"n:t:") == renamed
    store.close()
    assert recorded(own, gateway) == present

    leader = open_store(url, takes_over=True, token=1)
    leader.carry_out([Run(METADATA, is_delete=False, rows={FORMAT_KEY: old})])
    leader.close()
    leader = open_store(url, takes_over=True, token=2)
    assert recorded(own, gateway) == old
    leader.raise_format()
    leader.raise_format()
    assert recorded(own, gateway) == present
    leader.add_feature(GROUPS)
    assert recorded(own, gateway) == format_row(1, [GROUPS])
    assert create(own, gateway).tables == []
    leader.close()
    store = open_store(url)
    assert store.features() == {GROUPS}
    with store.scan(GROUP, b"", b"\xff") as rows:
        assert list(rows) == []
    store.close()
    gateway.close()
