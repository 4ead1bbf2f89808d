"""Features of a store are recorded when they are first used, despite any interruption."""

import json
from pathlib import Path

import happybase  # noqa: F401  the store needs it imported first
import pytest

from tables.data_folder import DataFolder
from tables.hbase.layout import FORMAT_KEY, format_row
from tables.hbase.store import HBaseStore
from tables.leveldb import LevelDBStore
from tables.sealing.store import SealedStore
from tables.store import GROUP, METADATA
from tests.contracts.store_contract import put, rows_of
from tests.simulation.gateway import PLACE, Mode, Rows, SimulatedGateway
from tests.tables.folders import make_folder
from tms.core.errors import OutcomeUnknown, StoreFormatUnknown, StoreUnavailable
from tms.core.values.store_access import StoreAccess
from tms.core.values.store_features import FEATURES, FILTERS, GROUPS, SCHEDULES

PLAIN = '{"format": 3, "layout": 2}'
WITH_GROUPS = '{"features": ["groups"], "format": 4, "layout": 2}'
NAME = PLACE.name_of(METADATA)


def test_the_features_that_are_known_ascend() -> None:
    assert sorted(FEATURES) == list(FEATURES) == [FILTERS, GROUPS, SCHEDULES]


def test_a_data_folder_is_of_format_3_until_a_feature_is_used(tmp_path: Path) -> None:
    recorded = tmp_path / "format.json"
    store = LevelDBStore(tmp_path)
    assert (store.features(), recorded.read_text()) == (frozenset(), PLAIN)
    store.add_feature(GROUPS)
    put(store, GROUP, (b"k", b"v"))
    store.close()
    assert recorded.read_text() == WITH_GROUPS

    for access in (StoreAccess.READ, StoreAccess.WRITE):
        store = LevelDBStore(tmp_path, access)
        assert store.features() == {GROUPS}
        assert store.is_raised
        assert rows_of(store, GROUP) == [(b"k", b"v")]
        store.close()
    assert recorded.read_text() == WITH_GROUPS


@pytest.mark.parametrize("number", [1, 2])
def test_an_older_folder_is_raised_and_gets_the_feature_and_keeps_its_layout(
    tmp_path: Path, number: int
) -> None:
    make_folder(tmp_path, {"format": number})
    store = LevelDBStore(tmp_path)
    store.add_feature(GROUPS)
    store.close()

    told = json.loads((tmp_path / "format.json").read_text())
    assert told == {"features": ["groups"], "format": 4, "layout": number}


@pytest.mark.parametrize(
    ("recorded", "unknown"),
    [
        ({"features": ["groups", "parts"], "format": 4, "layout": 2}, ["parts"]),
        (
            {"by": "topic", "format": 4, "layout": 2, "shard": 3, "shards": 4},
            ["by", "shard", "shards"],
        ),
        ({"by": "topic", "format": 4, "shards": 4}, ["by", "shards"]),
    ],
)
def test_what_a_later_version_has_used_is_named_and_what_to_do(
    tmp_path: Path, recorded: dict[str, object], unknown: list[str]
) -> None:
    make_folder(tmp_path, recorded)
    with pytest.raises(StoreFormatUnknown, match="use that version") as refused:
        LevelDBStore(tmp_path)

    assert refused.value.detail["unknown"] == unknown


def test_a_store_that_is_read_or_closed_gets_no_feature(tmp_path: Path) -> None:
    LevelDBStore(tmp_path).close()
    store = LevelDBStore(tmp_path, StoreAccess.READ)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.add_feature(GROUPS)
        store.close()

    assert (tmp_path / "format.json").read_text() == PLAIN


def test_a_folder_whose_disk_is_full_stays_and_the_feature_can_be_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LevelDBStore(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(DataFolder, "_put", fail)
        with pytest.raises(StoreUnavailable):
            store.add_feature(GROUPS)
    assert store.features() == frozenset()
    assert (tmp_path / "format.json").read_text() == PLAIN
    store.add_feature(GROUPS)

    assert store.features() == {GROUPS}
    store.close()


def opened_on(rows: Rows, token: int = 1) -> tuple[HBaseStore, SimulatedGateway]:
    gateway = SimulatedGateway(rows, lambda: None)
    store = HBaseStore(PLACE, gateway)
    store.take_over(lambda _: None, token=token)
    return store, gateway


def recorded_in(rows: Rows) -> bytes:
    value: bytes = rows.tables[NAME][FORMAT_KEY].value
    return value


def test_on_hbase_the_table_is_made_with_the_feature_and_others_see_both() -> None:
    rows = Rows()
    other, _ = opened_on(rows)
    store, _ = opened_on(rows, 2)
    assert PLACE.name_of(GROUP) not in rows.tables
    for _ in range(2):
        SealedStore(store).add_feature(GROUPS)
    put(store, GROUP, (b"a:b:k", b"v"))

    assert other.features() == {GROUPS}
    assert rows_of(other, GROUP) == [(b"a:b:k", b"v")]
    assert recorded_in(rows) == b'{"buckets": 2, "features": ["groups"], "format": 3}'


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("crash_at", range(2))
def test_on_hbase_a_feature_is_added_whenever_a_crash_broke_it_off(
    crash_at: int, *, is_done: bool
) -> None:
    """The server dies at each call that changes something, which is done or not."""
    rows = Rows()
    store, gateway = opened_on(rows)
    gateway.mode, gateway.skip = Mode.HELD, crash_at
    with pytest.raises((OutcomeUnknown, StoreUnavailable)):
        store.add_feature(GROUPS)
    [call] = gateway.late
    if is_done:
        rows.carry_out(call)
    is_recorded = recorded_in(rows) == format_row(2, [GROUPS])
    assert is_recorded == (crash_at == 1 and is_done)
    assert not is_recorded or PLACE.name_of(GROUP) in rows.tables
    store, _ = opened_on(rows, 2)
    assert store.features() == ({GROUPS} if is_recorded else frozenset())
    store.add_feature(GROUPS)

    assert store.features() == {GROUPS}
    assert rows_of(store, GROUP) == []


def test_on_hbase_a_store_of_format_1_is_raised_first() -> None:
    rows = Rows()
    rows._put(NAME, FORMAT_KEY, b'{"buckets": 2, "format": 1}')
    rows._put(NAME, b"\x00n:t:", b'{"cleanup":"mine","generation":"1","ttl":"5"}')
    store, _ = opened_on(rows)
    assert not store.is_raised
    store.add_feature(GROUPS)

    assert store.is_raised
    assert recorded_in(rows) == format_row(2, [GROUPS])
    assert b"user.cleanup" in (store.get(METADATA, b"n:t:") or b"")
    store.raise_format()
    assert recorded_in(rows) == format_row(2, [GROUPS])
