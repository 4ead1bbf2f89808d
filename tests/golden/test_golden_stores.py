"""Stores that older versions wrote, opened by this one: readers see what they saw before."""

import asyncio
import json
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import tms
from tables.hbase.layout import FORMAT_KEY
from tables.keys import metadata_key, prefix
from tables.prune_bound_table import StoreBoundTable
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import METADATA
from tables.store_tables import StoreTables
from tests.golden.golden_groups import WORKERS, groups_seen, write_groups
from tests.golden.rows_of_hbase import opening
from tests.golden.seen import OWNER, SEQUENCE, seen
from tests.golden.write_store import NOW_MS, SPAN_MS, chosen_by, waiting
from tms.core.runtime.clock import SystemClock
from tms.core.values.group_settings import DEFAULTS
from tms.core.values.groups import Acks, Group, Settle, Take
from tms.core.values.topic import TopicId
from tms.server import node, stores
from tms.transactions.pruning import InvalidList

HERE = Path(__file__).parent
TOLD_MS = NOW_MS + 40_060_000
"""The time at which the old versions reported their state."""
OLDER = ("leveldb_1", "leveldb_2", "hbase_1")
WITH_GROUPS = ("leveldb_4_layout_1", "leveldb_4_layout_2", "hbase_3")
WITH_SCHEDULES = ("leveldb_4_schedules", "hbase_3_schedules")
WITH_FILTERS = ("leveldb_4_filters", "hbase_3_filters")
WITHOUT = (*OLDER, "leveldb_3_layout_1", "leveldb_3_layout_2", "hbase_2")
ALL = (*WITHOUT, *WITH_GROUPS, *WITH_SCHEDULES, *WITH_FILTERS)
FEATURES = {
    **dict.fromkeys(WITH_GROUPS, ("groups",)),
    **dict.fromkeys(WITH_SCHEDULES, ("groups", "schedules")),
    **dict.fromkeys(WITH_FILTERS, ("filters", "groups", "schedules")),
}
NAMED = {
    "generation": "1",
    "owner": "shop",
    "ttl": "86400",
    "user.cleanup": "compact",
    "user.live_from_ms": str(NOW_MS + 10_000_000 + 3_600_000),
    "user.retention_messages": "mine",
    "user.retention_of": "papers",
    "user.schema_check": "full",
    "user.subject": "anything",
    "user.tms.own": "no",
    "user.tombstone_s": "never",
    "user.user.retention_messages": "3",
}
ORDERS = [
    "plain 1",
    "plain 2",
    "committed",
    "stored 1",
    "stored 2",
    "of the owner",
    "plain 3",
]
FRAMED = [
    ["a payload alone"],
    ["19.90", b"apples".hex(), {"currency": "EUR", "b": ""}],
    [None, b"apples".hex(), {}],
    ["", "", {}],
    ["committed", b"k".hex(), {}],
    ["stored"],
    ["stored", None, {"h": "v"}],
]

Opened = Callable[[], Any]


@pytest.fixture(params=ALL)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Opens a copy of the store, each time as it was left; yields a client and the store."""
    set_clock(monkeypatch, TOLD_MS, "first")
    url = f"leveldb:{tmp_path}/data"
    opened_stores: list[Any] = []
    save: Callable[[], None] = lambda: None  # noqa: E731  as `opening` gives one
    if name.startswith("hbase"):
        shutil.copy(HERE / f"{name}.json", tmp_path / "rows.json")
        open_tables, save = opening(tmp_path / "rows.json")
        url = "memory:"
    else:
        shutil.copytree(HERE / name, tmp_path / "data")
        open_tables = stores.open_tables

    def open_and_keep(*arguments: Any, **options: Any) -> Any:
        tables = open_tables(*arguments, **options)
        opened_stores.append(tables.store)
        return tables

    monkeypatch.setattr(node, "open_tables", open_and_keep)

    @contextmanager
    def open_it() -> Iterator[tuple[tms.Client, Any]]:
        with tms.connect(url) as client:
            yield client, opened_stores[-1]
        save()

    return open_it


def set_clock(monkeypatch: pytest.MonkeyPatch, now_ms: int, boot: str) -> None:
    """Set the machine's clock after a boot that the store does not know.

    Otherwise the test would depend on how long this machine has been running since it wrote it.
    """
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now_ms)
    monkeypatch.setattr(SystemClock, "boot_id", boot)


def expected(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((HERE / f"{name}.seen.json").read_text(encoding="utf-8"))
    if name in OLDER:
        told["topics"]["named"] = NAMED
    return told


def tables_on(store: Any) -> StoreTables:
    return SealedTables(store) if isinstance(store, SealedStore) else StoreTables(store)


def recorded(name: str, folder: Path) -> dict[str, Any]:
    """Return the format as it is recorded."""
    file = folder / ("rows.json" if name.startswith("hbase") else "data/format.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    if name.startswith("hbase"):
        found = json.loads(bytes.fromhex(found["s_metadata"][FORMAT_KEY.hex()]))
    return dict(found)


def test_readers_see_what_they_saw_before_and_again_after_the_store_was_raised(
    name: str, opened: Opened, tmp_path: Path
) -> None:
    told = expected(name)
    assert [message[1] for message in told["messages"]["orders"]["committed"]] == ORDERS
    if name not in OLDER:
        framed = told["messages"]["framed"]
        assert [message[1:] for message in framed["all"]] == FRAMED
    for _ in range(2):
        with opened() as (client, store):
            assert seen(client) == told
            bounds = StoreBoundTable(store).bounds("message")
            assert bounds == [], "what cleanup did by guesses is not counted on"
    kind = {"buckets": 2} if name.startswith("hbase") else {"layout": 1 if name[-1] == "1" else 2}
    number = 2 if name.startswith("hbase") else 3
    if features := FEATURES.get(name):
        assert recorded(name, tmp_path) == {
            **kind,
            "features": list(features),
            "format": number + 1,
        }
    else:
        assert recorded(name, tmp_path) == {**kind, "format": number}


@pytest.mark.parametrize("name", WITH_SCHEDULES, indirect=True)
def test_what_is_scheduled_waits_and_is_published_in_its_order(
    name: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.loads((HERE / f"{name}.waiting.json").read_text(encoding="utf-8"))
    with opened() as (client, _):
        assert waiting(client) == told
        client.topic("later").cancel_scheduled(told.pop()[0])
    set_clock(monkeypatch, TOLD_MS + 2 * SPAN_MS, "second")
    with opened() as (client, _):
        published = islice(client.topic("later").follow(start=0), 1 + len(told))
        assert [each.payload.decode() for each in published] == [
            "published",
            *(payload for _, _, payload, *_ in told),
        ]
        assert waiting(client) == []


@pytest.mark.parametrize("name", WITH_FILTERS, indirect=True)
def test_a_group_delivers_what_its_filter_chooses(name: str, opened: Opened) -> None:
    told = json.loads((HERE / f"{name}.chosen.json").read_text(encoding="utf-8"))
    told["settings"] = {**asdict(DEFAULTS), **told["settings"]}
    with opened() as (client, _):
        chosen = client.topic("chosen")
        europe = chosen.group("europe")
        assert chosen_by(client) == told
        [letter] = europe.dead_letters().letters
        assert (letter.message.payload, letter.origin.reason) == (b"2", "not this one")
        assert europe.redrive().redriven == 1
        chosen.publish(
            [tms.Message(region, headers={"region": region}) for region in (b"us", b"eu")]
        )
        taken = europe.take_once(100)
        payloads = [each.payload for each in taken]
        [*_, published] = taken
        assert payloads == [b"2", *(b"%d" % number for number in range(4, 12, 2)), b"eu"]
        for each in taken:
            each.ack()
    with opened() as (client, _):
        europe = client.topic("chosen").group("europe")
        assert (europe.open(), europe.take_once(1)) == ([], [])
        assert europe.show().state.through == published.id


@pytest.mark.parametrize("name", WITH_GROUPS, indirect=True)
def test_groups_stand_as_they_stood_and_continue(name: str, opened: Opened) -> None:
    told = json.loads((HERE / f"{name}.groups.json").read_text(encoding="utf-8"))
    assert sorted(told) == ["default:framed/by-key", "default:orders/workers"]
    for each in told.values():  # settings of later versions have their defaults
        each["settings"] = {**asdict(DEFAULTS), **each["settings"]}
    with opened() as (_, store):
        tables = tables_on(store)
        assert groups_seen(tables, TOLD_MS) == told
        topic_id, group, _ = WORKERS
        start = prefix(topic_id, 1)
        created = told[f"{topic_id}/{group}"]["created"]
        found = tables.groups.read(start, group, created)
        found.log.put_snapshot(found.log.next_number, b"later")
        while found.log.drop(1):
            pass
    with opened() as (_, store):
        again = tables_on(store).groups.read(start, group, created)
        assert again[1:] == (found.log.next_number, b"later", [])


@pytest.mark.parametrize("name", [each for each in WITH_GROUPS if each[0] == "l"])
def test_groups_are_served(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, TOLD_MS, "first")
    shutil.copytree(HERE / name, tmp_path / "data")
    told = json.loads((HERE / f"{name}.groups.json").read_text(encoding="utf-8"))
    topic_id, group, settings = WORKERS
    stood = told[f"{topic_id}/{group}"]
    [(first, (member, *_, held))] = stood["deliveries"].items()

    async def drain() -> tuple[Group, list[bytes], Group]:
        services = await node.open_services(f"leveldb:{tmp_path}/data")
        try:
            before = await services.groups.group(topic_id, group)
            mine = await services.groups.take(topic_id, group, Take("w-3", messages=100))
            payloads = [message.payload for block in mine.blocks for message in block]
            assert mine.delivery is not None
            for name_of, delivery in (("w-3", mine.delivery), (member, int(first))):
                acks = Settle(acks=[Acks(delivery)])
                settled = await services.groups.settle(topic_id, group, name_of, acks)
                assert not settled.refused
            return before, payloads, await services.groups.group(topic_id, group)
        finally:
            await services.close()

    before, payloads, after = asyncio.run(drain())
    assert (before.settings, before.version) == (settings, stood["version"])
    assert (before.state.open, before.state.leased) == (len(stood["open"]), len(held)) == (2, 1)
    assert payloads == [each.encode() for each in (ORDERS[1], *ORDERS[5:])]
    assert (after.state.open, after.state.unread) == (0, 0)


@pytest.mark.parametrize("name", WITHOUT, indirect=True)
def test_an_older_store_gets_groups_when_the_first_is_made(
    name: str, opened: Opened, tmp_path: Path
) -> None:
    with opened() as (client, store):
        if name in OLDER:
            client.topic("framed").create()
            client.topic("framed").publish(tms.Message(b"x", key=b"k"))
            client.topic("framed").publish(tms.Message(b"y", key=b"k"))
        write_groups(tables_on(store), client, TOLD_MS)
        told = groups_seen(tables_on(store), TOLD_MS)
    found = recorded(name, tmp_path)
    assert (found["features"], found["format"]) == (["groups"], 3 if name[0] == "h" else 4)
    with opened() as (_, store):
        assert groups_seen(tables_on(store), TOLD_MS) == told


def test_what_was_open_can_be_ended_and_the_store_continues(opened: Opened) -> None:
    with opened() as (client, _):
        orders = client.topic("orders")
        last = list(orders.poll())[-1]
        with (
            pytest.raises(tms.TransactionDuplicate),
            client.transaction(owner=OWNER, sequence=SEQUENCE),
        ):
            pass
        open_one, half = client.transactions.in_progress()
        orders.publish([], client.transactions.transaction(open_one.transaction_id))
        client.transactions.commit(open_one.transaction_id)
        client.transactions.abort(half.transaction_id)
        [new] = orders.publish(b"new")
        assert new > last.id
        consumed = list(orders.subscription("billing").poll(limit=1))
        orders.subscription("billing").advance(consumed[0])
        client.topic("prices").delete()
        client.topic("prices").create()
        client.topic("gone").create()

    with opened() as (client, _):
        orders = client.topic("orders")
        assert [each.payload.decode() for each in orders.poll(committed=True)] == [
            *ORDERS,
            "open",
            "committed behind an open one",
            "plain 4",
            "stored, open 1",
            "stored, open 2",
            "new",
        ]
        assert orders.subscription("billing").position().after == consumed[0].id
        assert client.topic("prices").properties()["generation"] == "4"
        assert client.topic("gone").properties()["generation"] == "2"
        assert not list(client.topic("prices").poll())
        assert not list(client.topic("gone").poll())


@pytest.mark.parametrize("name", OLDER, indirect=True)
def test_names_that_meant_nothing_are_the_users_own_and_that_is_reported_once(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as (client, store):
        named = client.topic("named")
        assert named.publish(b"now")[0][:8] == TOLD_MS.to_bytes(8)
        assert len(list(named.poll())) == 6
        row = json.loads(store.get(METADATA, metadata_key(TopicId("default", "named"))))
        assert row == NAMED
    with opened() as (client, _):
        client.topic("named").replace_properties(ttl=86_400, retention_messages=3)
    with opened() as (client, _):
        assert client.topic("named").properties()["retention_messages"] == "3"
    [told] = [each.getMessage() for each in caplog.records if each.name == "tables.raising"]
    assert "default:named" in told
    assert "default:orders" not in told


@pytest.mark.parametrize("name", [each for each in ALL if each.startswith("leveldb")])
def test_what_older_versions_left_is_searched_once_from_the_start(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They did not record from when on a transaction can have messages."""
    set_clock(monkeypatch, TOLD_MS, "first")
    shutil.copytree(HERE / name, tmp_path / "data")
    searched: list[int] = []
    from_ms = InvalidList.searched_from_ms

    def watched(listed: InvalidList, pointers: Collection[int]) -> int:
        searched.append(from_ms(listed, pointers))
        return searched[-1]

    monkeypatch.setattr(InvalidList, "searched_from_ms", watched)

    async def clean() -> tuple[int, int]:
        services = await node.open_services(f"leveldb:{tmp_path}/data")
        try:
            assert services.cleanup is not None
            await services.cleanup.run_pass(30)
            await services.cleanup.run_pass(30)
            state = await services.cleanup.state()
        finally:
            await services.close()
        assert state.invalid is not None
        return state.invalid.count, state.invalid.not_inverted

    assert asyncio.run(clean()) == (1, 0)
    assert searched == [0]
    with tms.connect(f"leveldb:{tmp_path}/data") as client:
        assert seen(client) == expected(name)
