"""A store with several shards on HBase: its creation, and which parts may be opened.

HBase is the simulated one.
"""

import happybase  # noqa: F401  the store needs it imported first
import pytest

from tables.hbase import opening
from tables.hbase.creation import Created, create_store_or_shards
from tables.hbase.layout import FORMAT_KEY, Place, format_row
from tables.store import METADATA, TABLES
from tests.simulation.gateway import PLACE, Mode, Rows, SimulatedGateway
from tms.core.errors import OutcomeUnknown, StoreFormatUnknown, StoreSharded, StoreUnavailable
from tms.core.text.store_url import url_of_shard
from tms.core.values.shards import OneShard, ShardBy, Sharding
from tms.core.values.store_features import GROUPS

AT = Place(PLACE.host, PLACE.port, "n", None)
URL = "hbase://simulated:1/n"
THREE = Sharding(3, ShardBy.TOPIC)
NAME = AT.name_of(METADATA)
CHANGES = 3 * (len(TABLES) + 1) + 2
"""The number of changing calls when three shards are created."""


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """An HBase without tables, which every store opened by a URL uses."""
    rows = Rows()
    rows.tables.clear()
    monkeypatch.setattr(opening, "Gateway", lambda *_, **__: SimulatedGateway(rows, lambda: None))
    return rows


def init(rows: Rows, sharding: Sharding | None = THREE, place: Place = AT) -> Created:
    gateway = SimulatedGateway(rows, lambda: None)
    return create_store_or_shards(place, gateway, None, sharding, lambda _done, _all: None)


def recorded(rows: Rows, name: bytes = NAME) -> bytes:
    value: bytes = rows.tables[name][FORMAT_KEY].value
    return value


def test_a_store_is_created_with_all_its_shards_once(rows: Rows) -> None:
    told: list[tuple[int, int]] = []
    gateway = SimulatedGateway(rows, lambda: None)
    created = create_store_or_shards(AT, gateway, None, THREE, lambda *each: told.append(each))

    names = [f"n.{shard}_{table}" for shard in range(3) for table in TABLES]
    assert (created.tables, created.sharding, created.buckets) == (names, THREE, 1)
    assert (created.splits, told) == ({}, [(1, 3), (2, 3), (3, 3)])
    assert rows.tables.keys() == {NAME, *(name.encode() for name in names)}
    assert list(rows.tables[NAME]) == [FORMAT_KEY]
    assert recorded(rows) == format_row(1, shard=THREE)
    for shard in range(3):
        row = recorded(rows, AT.of_shard(shard).name_of(METADATA))
        assert row == format_row(1, shard=OneShard(shard, THREE))
    for again in (THREE, None):
        assert init(rows, again) == Created(1, [], {}, THREE)
    assert opening.sharding_of(URL) == THREE


def test_a_store_has_the_buckets_of_its_url_in_each_shard(rows: Rows) -> None:
    place = Place(AT.host, AT.port, "n", 4)
    assert init(rows, place=place).buckets == 4
    assert b'"buckets": 4' in recorded(rows, AT.of_shard(2).name_of(METADATA))
    with pytest.raises(StoreFormatUnknown, match=r"give \?buckets=4 or none"):
        init(rows, place=Place(AT.host, AT.port, "n", 2))


@pytest.mark.parametrize("told", [None, Sharding(1), Sharding(1, ShardBy.TOPIC)])
def test_one_shard_is_a_store_without_shards(rows: Rows, told: Sharding | None) -> None:
    for is_new in (True, False):
        created = init(rows, told)
        assert bool(created.tables) == is_new
        assert created.sharding is None

    assert rows.tables.keys() == {AT.name_of(table) for table in TABLES}
    assert recorded(rows) == format_row(8)
    assert opening.sharding_of(URL) is None


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (THREE, Sharding(4, ShardBy.TOPIC), "created with 3 shards by topic, which cannot"),
        (THREE, Sharding(3), "created with 3 shards by topic, which cannot"),
        (THREE, Sharding(1), "created with 3 shards by topic, which cannot"),
        (Sharding(1), THREE, "created without shards, which cannot"),
    ],
)
def test_a_store_keeps_its_shards(rows: Rows, first: Sharding, then: Sharding, said: str) -> None:
    init(rows, first)
    before = {name: dict(cells) for name, cells in rows.tables.items()}
    with pytest.raises(StoreFormatUnknown, match=said):
        init(rows, then)

    assert {name: dict(cells) for name, cells in rows.tables.items()} == before


def test_the_tables_of_a_shard_do_not_take_another_store(rows: Rows) -> None:
    init(rows)
    with pytest.raises(StoreSharded):
        init(rows, None, AT.of_shard(1))
    init(rows, None, Place(AT.host, AT.port, "m.0", None))
    with pytest.raises(StoreFormatUnknown, match="tables of a whole store exist already"):
        init(rows, THREE, Place(AT.host, AT.port, "m", None))


@pytest.mark.parametrize("is_done", [True, False])
def test_a_creation_that_was_interrupted_is_not_a_store_and_continues(*, is_done: bool) -> None:
    """The command dies at each call that changes something, which is done or not."""
    calls, is_over = 0, False
    while not is_over:
        rows = Rows()
        rows.tables.clear()
        gateway = SimulatedGateway(rows, lambda: None)
        gateway.size, gateway.mode, gateway.skip = 1, Mode.HELD, calls
        try:
            create_store_or_shards(AT, gateway, None, THREE, lambda _done, _all: None)
            is_over = True
        except (OutcomeUnknown, StoreUnavailable):
            [call] = gateway.late
            if is_done:
                rows.carry_out(call)
        is_recorded = FORMAT_KEY in rows.tables.get(NAME, {})
        assert is_recorded == (is_over or (is_done and calls == CHANGES - 1))
        if rows.tables.get(AT.of_shard(0).name_of(METADATA)) and not is_recorded:
            with pytest.raises(StoreFormatUnknown, match="tables of shard 0 of 3 shards by topic"):
                init(rows, Sharding(4))
        init(rows)
        assert recorded(rows) == format_row(1, shard=THREE)
        assert len(rows.tables) == 3 * len(TABLES) + 1
        calls += 1

    assert calls - 1 == CHANGES


def test_a_shard_is_opened_as_what_it_is_alone(rows: Rows) -> None:
    init(rows)
    init(rows, None, Place(AT.host, AT.port, "m", None))
    one = url_of_shard(URL, 1)
    for url in (URL, one):
        with pytest.raises(StoreSharded, match="tms serve") as refused:
            opening.open_store(url)
        assert refused.value.detail["shards"] == 3
    for url, expected in (
        (one, OneShard(0, THREE)),
        (one, OneShard(1, Sharding(3))),
        (one, OneShard(1, Sharding(4, ShardBy.TOPIC))),
        ("hbase://simulated:1/m", OneShard(0, THREE)),
    ):
        with pytest.raises(StoreFormatUnknown, match=", not of shard"):
            opening.open_store(url, shard=expected, takes_over=True)
    with pytest.raises(StoreSharded):
        opening.open_store(URL, shard=opening.ANY_SHARD)
    opening.open_store(one, shard=OneShard(1, THREE)).close()
    opening.open_store(one, shard=opening.ANY_SHARD).close()


def test_a_shard_that_gets_a_feature_stays_what_it_is(rows: Rows) -> None:
    init(rows)
    shard = OneShard(2, THREE)
    store = opening.open_store(url_of_shard(URL, 2), shard=shard, takes_over=True)
    store.raise_format()
    store.add_feature(GROUPS)
    store.close()

    row = recorded(rows, AT.of_shard(2).name_of(METADATA))
    assert row == format_row(1, [GROUPS], shard)
    assert recorded(rows) == format_row(1, shard=THREE)
    assert init(rows).tables == []


def test_a_cluster_lets_go_of_each_shard(rows: Rows) -> None:
    init(rows)
    for shard in (0, 2):
        url = url_of_shard(URL, shard)
        opening.open_store(url, shard=OneShard(shard, THREE), takes_over=True, token=5)

    assert opening.release_store(URL)
    assert not opening.release_store(URL)
