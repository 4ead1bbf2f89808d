"""A copy has the content of its source, can be resumed, and touches nothing else."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tables.copying import Copying, carry_mark
from tables.leveldb import LevelDBStore
from tables.memory import MemoryStore
from tables.store import BOUND, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, Store
from tables.store_tables import StoreTables
from tests.cli.conftest import run_command
from tests.contracts.store_contract import rows_of
from tests.manual_clock import ManualClock
from tests.tables.copies import ORDERS, copy, fill, seen_in
from tests.tables.folders import make_folder
from tms.core.errors import CopyRefused, StoreUnavailable
from tms.core.runtime.clock import SystemClock
from tms.core.runtime.trusted_clock import ClockState, TrustedClock
from tms.core.services.mark import Mark, encode_mark, latest_mark
from tms.core.services.transactions import StartRequest
from tms.core.values.topic import TopicId
from tms.security.grants import GrantOptions, Grants
from tms.security.tokens import new_token
from tms.server.node import open_services

COPIED = (PAYLOAD, MESSAGE, SUBSCRIPTION, METADATA)


@pytest.fixture
def source(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path}/source"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path}/target"


def test_settings_of_namespaces_are_copied_and_it_is_said_what_is_left(
    source: str, target: str
) -> None:
    asyncio.run(fill(source, many=1))
    for name in ("one", "two"):
        run_command("namespace", "set", name, "--ttl-max", "1d", "--url", source)
    asyncio.run(add_token(source))
    facts = copy(source, target)
    assert (facts["namespaces"], facts["other_namespaces"], facts["left_tokens"]) == (2, [], 1)
    before = run_command("namespace", "list", "--url", source)
    assert run_command("namespace", "list", "--url", target)[1] == before[1]
    run_command("namespace", "set", "two", "--ttl-max", "2d", "--url", target)

    code, out, _ = run_command("copy", source, target)

    assert code == 0
    assert "The settings of 1 namespace are the same." in out
    assert "Not copied: the settings of two." in out
    assert "Not copied: 0 rules and 1 token." in out


async def add_token(store: str) -> None:
    services = await open_services(store)
    assert services.namespaces.metadata is not None
    grants = Grants(GrantOptions(), SystemClock())
    await grants.open(services.namespaces.metadata)
    await grants.add_token(new_token("ann")[1])
    await grants.close()
    await services.close()


def layout_of(store: str) -> int:
    text = Path(store.removeprefix("leveldb:"), "format.json").read_text()
    found: int = json.loads(text)["layout"]
    return found


@pytest.mark.parametrize("number", [1, 2])
def test_readers_of_the_copy_see_the_same(source: str, target: str, number: int) -> None:
    make_folder(Path(source.removeprefix("leveldb:")), {"format": number})
    seen = asyncio.run(fill(source))
    facts = copy(source, target)
    assert facts["topics"] == 3
    assert facts["copied_rows"] == facts["compared_rows"] > 1_000
    assert facts["target_transactions"] == "the source's"
    assert facts["invalid_pointers"] == 1
    copied, topic, last = asyncio.run(seen_in(target))

    assert (layout_of(source), layout_of(target)) == (number, 2)
    assert copied == seen
    assert (topic.generation, topic.ttl_s) == (2, 2**31 - 1)
    assert last > max(message_id for message_id, _ in seen[True])


def rows_in(store: str) -> list[list[tuple[bytes, bytes]]]:
    opened = LevelDBStore(Path(store.partition(":")[2]))
    found = [rows_of(opened, table) for table in (*COPIED, BOUND)]
    opened.close()
    return found


async def add(store: str, *, to_a_new_topic: bool) -> None:
    services = await open_services(store)
    topic = TopicId("ns", "added") if to_a_new_topic else ORDERS
    if to_a_new_topic:
        await services.messaging.create_topic(topic)
    await services.messaging.publish(topic, [b"later"])
    await services.close()


def test_a_copy_that_is_complete_may_be_asked_for_again(source: str, target: str) -> None:
    asyncio.run(fill(source, many=1))
    first = copy(source, target)
    before = rows_in(target)
    again = copy(source, target)

    assert (again["topics"], again["copied_rows"]) == (3, 0)
    assert again["compared_rows"] == first["compared_rows"]
    assert rows_in(target) == before

    asyncio.run(add(source, to_a_new_topic=True))
    assert copy(source, target)["copied_rows"] == 1


@pytest.mark.parametrize("goes_on", ["source", "target"])
def test_a_copy_of_what_went_on_is_refused_and_says_why(
    source: str, target: str, goes_on: str
) -> None:
    asyncio.run(fill(source, many=1))
    copy(source, target)
    asyncio.run(add({"source": source, "target": target}[goes_on], to_a_new_topic=False))
    before = rows_in(target)
    code, _, err = run_command("copy", source, target)

    assert code == 1
    assert "the target has or had another topic with this name" in err
    assert rows_in(target) == before


def test_what_differs_amid_its_rows_is_found_before_anything_is_copied(
    filled: LevelDBStore,
) -> None:
    target = MemoryStore()
    list(Copying(filled, target, "a").steps((), ()))
    batch = target.batch()
    for table in COPIED:
        for key, _ in rows_of(target, table):
            if not key.startswith(b"ns:orders:"):
                batch.delete(table, key)
    [(first, _), *_] = [row for row in rows_of(target, MESSAGE) if row[0].startswith(b"ns:orders:")]
    batch.put(MESSAGE, first, b"\x00other")
    target.write(batch)
    before = [rows_of(target, table) for table in (*COPIED, BOUND)]
    copying = Copying(filled, target, "a")
    copying.check()

    with pytest.raises(CopyRefused, match="another topic with this name"):
        list(copying.steps((), ()))
    assert [rows_of(target, table) for table in (*COPIED, BOUND)] == before
    filled.close()


def test_transactions_in_progress_are_refused_with_the_way_out(source: str, target: str) -> None:
    async def leave_one_open() -> None:
        services = await open_services(source)
        await services.transactions.start(StartRequest())
        await services.close()

    asyncio.run(leave_one_open())
    code, _, err = run_command("copy", source, target)

    assert code == 1
    assert "tms tx invalidate" in err


def test_a_target_with_transactions_of_its_own_keeps_them(source: str, target: str) -> None:
    async def use_target() -> None:
        services = await open_services(target)
        pointer = (await services.transactions.start(StartRequest())).transaction_id
        await services.transactions.commit(pointer)
        await services.close()

    seen = asyncio.run(fill(source, many=1))
    asyncio.run(use_target())
    assert copy(source, target)["target_transactions"] == "its own"
    copied, _, _ = asyncio.run(seen_in(target))

    assert copied == seen


def test_a_target_that_is_behind_is_refused(source: str, target: str) -> None:
    async def use_target() -> None:
        await (await open_services(target)).close()

    asyncio.run(use_target())
    asyncio.run(fill(source, many=1))
    code, _, err = run_command("copy", source, target)

    assert code == 1
    assert "tms tx start" in err


NOW_MS, DAY_MS = 1_800_000_000_000, 86_400_000
THEIRS = Mark(NOW_MS, NOW_MS - 5, 77, 900, 30, "their boot")
OWN = Mark(NOW_MS - DAY_MS, NOW_MS - DAY_MS, 5, 800, 40, "own boot")


@pytest.mark.parametrize(
    ("own", "carried"),
    [
        ({}, THEIRS),
        ({0: OWN}, replace(OWN, high=900)),
        ({0: replace(OWN, high=1), 3: OWN}, replace(OWN, high=900)),
        ({2: replace(OWN, high=1_000), 3: OWN}, replace(OWN, high=1_000)),
    ],
)
def test_the_mark_of_the_target_is_above_both_and_of_a_new_target_the_source_s(
    own: dict[int, Mark], carried: Mark
) -> None:
    source, target = StoreTables(MemoryStore()), StoreTables(MemoryStore())
    for tables, marks in ((source, {1: replace(THEIRS, high=950), 4: THEIRS}), (target, own)):
        batch = tables.batch()
        for token, mark in marks.items():
            tables.transactions.put_mark(batch, token, encode_mark(mark))
        tables.write(batch)
    carried = replace(carried, high=max(carried.high, 950))
    for _ in range(2):  # an interrupted copy is requested again
        carry_mark(source.transactions, target)
        assert latest_mark(target.transactions) == carried


async def version_given(store: str, name: str, now_ms: int) -> int:
    """Create a subscription at a given time and delete it; return its version."""
    services = await open_services(store, clock=ManualClock(now_ms))
    created = await services.subscriptions.create_subscription(ORDERS, name)
    await services.subscriptions.delete_subscription(ORDERS, name)
    await services.close()
    return created.version


def test_numbers_of_a_copy_continue_above_the_source_s_under_an_earlier_clock(
    source: str, target: str
) -> None:
    asyncio.run(fill(source, many=1))
    ahead_ms = SystemClock().now_ms() + DAY_MS
    given = asyncio.run(version_given(source, "s", ahead_ms))
    copy(source, target)

    assert asyncio.run(version_given(target, "s", ahead_ms - 30 * DAY_MS)) > given


@pytest.mark.parametrize("behind_ms", [30 * DAY_MS, -30 * DAY_MS])
def test_a_copy_that_is_started_under_a_wrong_clock_continues_from_the_source_s_time(
    source: str, target: str, behind_ms: int
) -> None:
    """As in the source: a wall behind is in doubt, and one ahead deletes nothing yet."""

    async def start() -> ClockState:
        services = await open_services(target, clock=ManualClock(now_ms - behind_ms))
        clock = services.engine.clock
        assert isinstance(clock, TrustedClock)
        assert clock.deletion_ms() <= now_ms
        state = clock.state()
        await services.close()
        return state

    asyncio.run(fill(source, many=1))
    now_ms = SystemClock().now_ms()
    copy(source, target)
    held = ("expiry", "tombstones") if behind_ms > 0 else ("deletion",)
    assert asyncio.run(start()).held == held


class Breaking(MemoryStore):
    """Fails a write at some point."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left = 0

    def write(self, batch: Any) -> None:
        if self.writes_left == 0:
            raise StoreUnavailable(reason="broken off")
        self.writes_left -= 1
        super().write(batch)

    def close(self) -> None:
        pass


def whole(source: Store, target: Store) -> bool:
    return all(rows_of(source, table) == rows_of(target, table) for table in COPIED)


@pytest.fixture
def filled(source: str) -> LevelDBStore:
    asyncio.run(fill(source, many=20))
    return LevelDBStore(Path(source.partition(":")[2]), sync=False)


def test_it_continues_wherever_it_was_interrupted(
    filled: LevelDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tables.copying._ROWS_MAX", 7)
    target = Breaking()
    copied = attempts = 0
    while True:
        target.writes_left = 3
        attempts += 1
        seen = set()
        try:
            for step in Copying(filled, target, "a").steps((), ()):
                copied += step.copied_rows
                seen = {key for key, _ in rows_of(target, METADATA)}
        except StoreUnavailable:
            assert {key for key, _ in rows_of(target, METADATA)} >= seen
            continue
        break
    total = sum(len(rows_of(filled, table)) for table in COPIED[:3])
    assert b'"live_from_ms":"' in dict(rows_of(target, METADATA))[b"ns:orders:"]

    assert attempts > 10
    assert copied == total, "nothing twice"
    assert whole(filled, target)
    assert rows_of(target, BOUND) == []
    filled.close()


def test_what_others_have_is_never_written_to(filled: LevelDBStore) -> None:
    target = MemoryStore()
    batch = target.batch()
    batch.put(SUBSCRIPTION, b"ns:orders:\0\0\0\1x", b"theirs")
    target.write(batch)
    with pytest.raises(CopyRefused, match="another topic"):
        Copying(filled, target, "a").check()
    assert rows_of(target, MESSAGE) == []
    filled.close()


def test_two_sources_do_not_mix(filled: LevelDBStore) -> None:
    target = Breaking()
    target.writes_left = 2
    with pytest.raises(StoreUnavailable):
        list(Copying(filled, target, "a").steps((), ()))
    with pytest.raises(CopyRefused, match="copied from a"):
        Copying(filled, target, "b").check()
    filled.close()


def test_a_source_that_has_changed_in_the_meantime_is_refused(filled: LevelDBStore) -> None:
    target = Breaking()
    target.writes_left = 6
    with pytest.raises(StoreUnavailable):
        list(Copying(filled, target, "a").steps((), ()))
    batch = filled.batch()
    for topic in (b"ns:gone:", b"ns:orders-2:", b"ns:orders:"):
        batch.put(MESSAGE, topic + b"\x00\x00\x00\x02" + b"\x7f" * 10, b"\x00new")
    filled.write(batch)
    with pytest.raises(CopyRefused, match="has changed"):
        Copying(filled, target, "a").check()
    filled.close()


def test_rows_that_differ_in_the_end_are_reported(filled: LevelDBStore) -> None:
    class Losing(MemoryStore):
        def write(self, batch: Any) -> None:
            batch.writes[:] = [w for w in batch.writes if w[2] != b"\x005"]
            super().write(batch)

    target = Losing()
    with pytest.raises(CopyRefused, match="differ"):
        list(Copying(filled, target, "a").steps((), ()))
    assert b"ns:orders:" not in dict(rows_of(target, METADATA))
    filled.close()


def test_wrong_usage_is_reported(tmp_path: Path, source: str) -> None:
    asyncio.run(fill(source, many=1))
    for given in (("memory:", source), (source, source), (f"leveldb:{tmp_path}/none", source)):
        assert run_command("copy", *given)[0] == 2
    code, _, err = run_command("copy", source, "hbase://x")
    assert (code, "hbase://HOST:PORT/PREFIX" in err) == (2, True)
