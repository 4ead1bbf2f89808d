"""Formerly unused property names are renamed in an older store, despite interruptions."""

import json
import logging
from pathlib import Path

import happybase  # noqa: F401  the store needs it imported first
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.copying import Copying
from tables.data_folder import DataFolder
from tables.hbase.layout import FORMAT_KEY, format_row
from tables.hbase.store import HBaseStore
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.metadata_table import StoreMetadataTable
from tables.raising import raise_rows, raised_row
from tables.sealing.seal import Hidden, Seal, seal_of, sealed_row, topic_row
from tables.sealing.store import SealedStore
from tables.store import METADATA, Store
from tests.simulation.gateway import PLACE, Mode, Rows, SimulatedGateway
from tms.core.errors import OutcomeUnknown, StoreUnavailable
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.topic_properties import is_of_the_server

OLD = {
    b"default:a:": {"generation": "1", "live_from_ms": "99999", "ttl": "5", "owner": "ä"},
    b"default:b:": {"generation": "-2", "retention_messages": "3", "ttl": "5"},
    b"default:c:": {"generation": "1", "ttl": "5", "user.cleanup": "mine"},
    b"default:d:": {"cleanup": "compact", "generation": "1", "ttl": "5", "user.cleanup": "mine"},
}
NEW = {
    b"default:a:": {"generation": "1", "owner": "ä", "ttl": "5", "user.live_from_ms": "99999"},
    b"default:b:": {"generation": "-2", "ttl": "5", "user.retention_messages": "3"},
    b"default:c:": OLD[b"default:c:"],
    b"default:d:": {
        "generation": "1",
        "ttl": "5",
        "user.cleanup": "mine",
        "user.user.cleanup": "compact",
    },
}
NAMES = st.sampled_from(
    ["live_from_ms", "cleanup", "retention_x", "schema_check", "subject", "tms.x", "owner"]
)
PROPERTIES = st.dictionaries(
    st.builds(lambda users, name: "user." * users + name, st.integers(0, 3), NAMES), st.text()
)


def encoded(properties: dict[str, str]) -> bytes:
    return json.dumps(properties, separators=(",", ":"), ensure_ascii=False).encode()


def rows_of(store: Store) -> dict[bytes, dict[str, str]]:
    with store.scan(METADATA, b"", b"\xff") as rows:
        return {key: json.loads(topic_row(row)) for key, row in rows}


class OlderStore(MemoryStore):
    """A store of an older format."""

    is_raised = False

    def __init__(self) -> None:
        super().__init__()
        batch = self.batch()
        for key, properties in OLD.items():
            batch.put(METADATA, key, encoded(properties))
        self.write(batch)

    def raise_format(self) -> None:
        raise_rows(self)
        self.is_raised = True


@given(PROPERTIES)
def test_all_that_a_user_gave_stays_under_a_name_of_the_users(given: dict[str, str]) -> None:
    row = raised_row(encoded(given))
    renamed = json.loads(row)

    assert not any(map(is_of_the_server, renamed))
    assert sorted(renamed.values()) == sorted(given.values())
    for name, value in given.items():
        if not is_of_the_server(name):
            assert renamed[name] == value
    assert raised_row(row) == row


def test_a_seal_stays_and_so_does_a_row_that_is_damaged() -> None:
    seal = Seal(2, (Hidden(b"", 5),))
    row = sealed_row(encoded(OLD[b"default:a:"]), seal)

    assert json.loads(topic_row(raised_row(row))) == NEW[b"default:a:"]
    assert seal_of(raised_row(row)) == seal
    for damaged in (b"", b"{", b"[1]", b"7", b"\xff", b'{"live_from_ms"'):
        assert raised_row(damaged) == damaged


def data_folder(path: Path, number: int) -> Path:
    store = LevelDBStore(path)
    batch = store.batch()
    for key, properties in OLD.items():
        batch.put(METADATA, key, encoded(properties))
    store.write(batch)
    store.close()
    (path / "format.json").write_text(json.dumps({"format": number}))
    return path


class Crash(Exception):
    """The process dies."""


@pytest.mark.parametrize("crash_at", range(5))
def test_a_data_folder_is_raised_whenever_a_crash_broke_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    """Crash before each write of a row, and before and after the write of the format."""
    folder = data_folder(tmp_path / "data", 2)
    format_file = folder / "format.json"
    left = crash_at
    put, record = LevelDBStore.compare_and_put, DataFolder._record

    def counted() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise Crash

    def put_or_crash(store: LevelDBStore, *row: object) -> bool:
        counted()
        return put(store, *row)  # type: ignore[arg-type]

    def record_or_crash(opened: DataFolder, path: Path, features: frozenset[str]) -> None:
        counted()
        record(opened, path, features)
        counted()

    with monkeypatch.context() as patched:
        patched.setattr(LevelDBStore, "compare_and_put", put_or_crash)
        patched.setattr(DataFolder, "_record", record_or_crash)
        with pytest.raises(Crash):
            LevelDBStore(folder)
    is_recorded = json.loads(format_file.read_text()) == {"format": 3, "layout": 2}
    assert is_recorded == (crash_at == 4)

    store = LevelDBStore(folder)
    assert rows_of(store) == NEW
    store.close()
    assert json.loads(format_file.read_text()) == {"format": 3, "layout": 2}


def test_in_a_data_folder_of_format_3_nothing_is_renamed(tmp_path: Path) -> None:
    folder = data_folder(tmp_path / "data", 2)
    (folder / "format.json").write_text('{"format": 3, "layout": 2}')
    store = LevelDBStore(folder)

    assert rows_of(store) == OLD
    store.close()


def older_rows() -> Rows:
    rows = Rows()
    old = format_row(2).replace(b'"format": 2', b'"format": 1')
    rows._put(PLACE.name_of(METADATA), FORMAT_KEY, old)
    for key, properties in OLD.items():
        rows._put(PLACE.name_of(METADATA), b"\x00" + key, encoded(properties))
    return rows


def opened_on(rows: Rows, token: int = 1) -> tuple[HBaseStore, SimulatedGateway]:
    gateway = SimulatedGateway(rows, lambda: None)
    store = HBaseStore(PLACE, gateway)
    store.take_over(lambda _: None, token=token)
    return store, gateway


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("crash_at", range(4))
def test_a_store_on_hbase_is_raised_whenever_a_crash_broke_it_off(
    crash_at: int, *, is_done: bool
) -> None:
    """The server dies at each call that changes something, which is done or not."""
    rows = older_rows()
    store, gateway = opened_on(rows)
    gateway.mode, gateway.skip = Mode.HELD, crash_at
    with pytest.raises(OutcomeUnknown):
        store.raise_format()
    [call] = gateway.late
    if is_done:
        rows.carry_out(call)
    store, _ = opened_on(rows, 2)
    assert StoreMetadataTable(store).get(TopicId("default", "a")) == TopicMetadata(
        TopicId("default", "a"), 1, 5, {"owner": "ä", "user.live_from_ms": "99999"}
    )
    store.raise_format()

    assert rows_of(store) == NEW
    assert rows.tables[PLACE.name_of(METADATA)][FORMAT_KEY].value == format_row(2)
    assert store.is_raised


def test_a_leader_renames_nothing_that_was_given_after_another_raised_the_store() -> None:
    rows = older_rows()
    late, _ = opened_on(rows)
    other = HBaseStore(PLACE, SimulatedGateway(rows, lambda: None))
    other.raise_format()
    topic_id = TopicId("default", "e")
    assert StoreMetadataTable(other).replace(None, TopicMetadata(topic_id, 1, 5, {}, 77))
    late.raise_format()

    assert rows_of(late) == {
        **NEW,
        b"default:e:": {"generation": "1", "live_from_ms": "77", "ttl": "5"},
    }


@pytest.mark.parametrize("is_sealed", [False, True])
def test_until_it_is_raised_the_names_mean_nothing_and_topics_can_be_changed(
    *, is_sealed: bool
) -> None:
    older = OlderStore()
    store: Store = SealedStore(older, None) if is_sealed else older
    table = StoreMetadataTable(store)
    a, b, _, d = table.scan()
    assert (a.live_from_ms, b.properties) == (0, {"user.retention_messages": "3"})
    assert not d.is_compact
    assert table.get(a.id) == a

    changed = a.changed(3, {"owner": "me"}, now_ms=5_000)
    assert table.replace(a, changed)
    assert not table.replace(a, changed), "it is another by now"
    assert table.replace(b, TopicMetadata(b.id, 3, 5, {}))
    assert list(table.forget(store.batch(), [a, d])) == [d.id]
    assert table.get(a.id) == changed


def test_until_it_is_raised_it_is_given_nothing_that_would_be_renamed() -> None:
    store = OlderStore()
    table = StoreMetadataTable(store)
    [a, *_] = table.scan()
    for refused in (
        a.trimmed(7),
        a.changed(6, {}, 10_000),
        TopicMetadata(TopicId("default", "e"), 1, 5, {"retention_messages": "3"}),
    ):
        before = rows_of(store)
        with pytest.raises(StoreUnavailable) as error:
            table.replace(table.get(refused.id), refused)
        assert error.value.detail["properties"]
        assert rows_of(store) == before
    store.raise_format()

    assert table.replace(a, a.trimmed(7))


def test_what_a_topic_is_given_while_it_is_renamed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OlderStore()
    table = StoreMetadataTable(store)
    [a, *_] = table.scan()
    changed = a.changed(4, {"owner": "me"}, now_ms=1)
    put = store.compare_and_put

    def beside(name: str, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        monkeypatch.setattr(store, "compare_and_put", put)
        assert table.replace(a, changed)
        return put(name, key, expected, value)

    monkeypatch.setattr(store, "compare_and_put", beside)
    store.raise_format()

    assert table.get(a.id) == changed


def test_a_change_that_meets_the_renaming_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OlderStore()
    table = StoreMetadataTable(store)
    [a, *_] = table.scan()
    changed = a.changed(4, {"owner": "me"}, now_ms=1)
    put = store.compare_and_put

    def beside(name: str, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        monkeypatch.setattr(store, "compare_and_put", put)
        store.raise_format()
        return put(name, key, expected, value)

    monkeypatch.setattr(store, "compare_and_put", beside)
    assert table.replace(a, changed)

    assert table.get(a.id) == changed


def test_a_copy_of_a_store_that_is_not_raised_is_one_that_is() -> None:
    target = MemoryStore()
    for _ in range(2):
        copying = Copying(OlderStore(), target, "older")
        copying.check()
        list(copying.steps((), ()))

    assert rows_of(target) == NEW


def test_it_is_reported_once_in_which_topics(caplog: pytest.LogCaptureFixture) -> None:
    store = OlderStore()
    with caplog.at_level(logging.WARNING):
        raise_rows(store)
        raise_rows(store)

    [told] = caplog.messages
    assert "default:a, default:b, default:d:" in told
    assert "default:c" not in told
