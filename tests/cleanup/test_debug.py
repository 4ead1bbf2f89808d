"""`tms debug` on a folder that no server has open. On a server: `test_debug_server.py`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cleanup import inspection
from cleanup.inspection_service import Partwise
from tables.keys import prefix, reference_value, transactional_start
from tables.leveldb import LevelDBStore
from tables.store import MESSAGE, PAYLOAD
from tests.cli.conftest import Outcome, run_command
from tests.manual_clock import ManualClock
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.message import FIRST_ID, KEY, Message, MessageId, tombstone
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId
from tms.server.node import open_services
from tms.server.stores import inspect

NOW_MS = 1_700_000_000_000
TOPIC = TopicId("default", "orders")
NEVER_S = 2**31 - 1


async def _fill(store: str) -> tuple[list[str], int]:
    services = await open_services(store, clock=ManualClock(NOW_MS))
    messaging, transactions = services.messaging, services.transactions
    await messaging.create_topic(TOPIC, {"ttl": NEVER_S})
    await messaging.publish(TOPIC, [b"plain"])
    committed = (await transactions.start(StartRequest())).transaction_id
    await messaging.store(TOPIC, [b"stored"], committed)
    await messaging.publish(TOPIC, [], committed)
    await transactions.commit(committed)
    invalid = (await transactions.start(StartRequest())).transaction_id
    await messaging.publish(TOPIC, [b"dead"], invalid)
    await transactions.invalidate(invalid)
    assert services.cleanup is not None
    found = messaging.poll(TOPIC, Reading(FIRST_ID))
    ids = [message.id.hex() async for block in found for message in block]
    await services.close()
    return ids, invalid


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path}/data"


@pytest.fixture
def filled(store: str) -> tuple[list[str], int]:
    """The ids of a plain, a stored and an invalid message, and the invalid pointer."""
    return asyncio.run(_fill(store))


def debug(store: str, *arguments: str) -> Outcome:
    return run_command("debug", *arguments, "--store", store)


def lines(store: str, *arguments: str) -> list[Any]:
    code, out, err = debug(store, *arguments)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.usefixtures("filled")
def test_tables_with_rows_and_sizes(store: str) -> None:
    [tables] = lines(store, "tables", "--json")
    rows = {table["table"]: table["rows"] for table in tables}

    assert rows["message"] == 3
    assert rows["payload"] == rows["metadata"] == 1
    assert "message" in debug(store, "tables")[1]


def test_rows_decoded(store: str, filled: tuple[list[str], int]) -> None:
    ids, invalid = filled
    rows = lines(store, "rows", "--topic", "orders")

    assert [row["kind"] for row in rows] == ["plain", "reference", "transactional"]
    assert rows[0]["id"] == ids[0]
    assert rows[0]["payload"] == "cGxhaW4="
    assert rows[2]["write_pointer"] == str(invalid)
    assert len(lines(store, "rows", "--limit", "2")) == 2
    assert lines(store, "rows", "--topic", "orders", "--from", str(NOW_MS + 1)) == []
    code, out, err = debug(store, "rows", "--topic", "other")
    assert (code, out) == (3, "")
    assert "no topic other" in err
    [payload] = lines(store, "rows", "--table", "payload")
    assert payload["payload"] == "c3RvcmVk"
    [metadata] = lines(store, "rows", "--table", "metadata")
    assert metadata["topic"] == "default:orders"


def test_a_message_explained(store: str, filled: tuple[list[str], int]) -> None:
    plain, stored, dead = filled[0]
    unknown = MessageId(NOW_MS + 5, 0).encode().hex()

    assert "belongs to no transaction" in debug(store, "explain", "orders", plain)[1]
    told = debug(store, "explain", "orders", stored)[1]
    assert "committed" in told
    assert "payload is there" in told
    assert "transaction is invalid" in debug(store, "explain", "orders", dead)[1]
    assert "There is no such row" in debug(store, "explain", "orders", unknown)[1]
    code, out, err = debug(store, "explain", "other", plain)
    assert (code, out) == (3, "")
    assert "no topic other" in err


async def _leave_open(store: str) -> tuple[list[str], list[int]]:
    """Leave two transactions open, publish after them; return the ids of messages and of both."""
    clock = ManualClock(NOW_MS)
    services = await open_services(store, clock=clock)
    messaging, transactions = services.messaging, services.transactions
    await messaging.create_topic(TOPIC, {"ttl": NEVER_S})
    ids = list(await messaging.publish(TOPIC, [b"before"]))
    clock.advance(5)
    request = StartRequest(timeout_s=60, client="host:123")
    first = await transactions.start(request)
    second = await transactions.start(request)
    committed = await transactions.start(request)
    rolled_back = await messaging.publish(TOPIC, [b"rolled back"], second.write_pointer)
    assert rolled_back.rollback_range is not None
    await messaging.rollback(TOPIC, rolled_back.rollback_range)
    pointer = (await transactions.checkpoint(first.transaction_id)).write_pointer
    for payload, pointer_of in (
        (b"open", pointer),
        (b"plain behind", None),
        (b"committed behind", committed.write_pointer),
        (b"open behind", second.write_pointer),
    ):
        ids += await messaging.publish(TOPIC, [payload], pointer_of)
    await transactions.commit(committed.transaction_id)
    await services.close()
    return [each.hex() for each in [*ids, rolled_back[0]]], [
        first.transaction_id,
        second.transaction_id,
    ]


def _explained(store: str, message_id: str) -> tuple[list[str], str | None]:
    """Return the explanation of a message after 45 s, and the transaction that blocks readers."""
    leveldb = LevelDBStore(Path(store.partition(":")[2]))
    looking = Partwise(leveldb, Limits(), ManualClock(NOW_MS + 45_005))
    try:
        facts = asyncio.run(looking.explain(TOPIC, bytes.fromhex(message_id)))
    finally:
        looking.close()
    return facts["said"], facts.get("stopped_at")


def test_why_readers_are_not_given_a_message_yet(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, (first, _) = asyncio.run(_leave_open(store))
    before, open_one, plain, committed, other, rolled_back = ids
    stopped = f"stopped at transaction {first} of client host:123, 45 s old, times out in 15 s."
    behind = f"Readers of committed messages stop before it, at {open_one}: {stopped}"
    at, free = str(first), "It belongs to no transaction: all readers get it."

    assert _explained(store, before) == ([free], None)
    assert _explained(store, open_one) == (
        [
            "Its transaction is in_progress.",
            f"Readers of committed messages stop at it: {stopped}",
        ],
        at,
    )
    assert _explained(store, plain) == (["It belongs to no transaction.", behind], at)
    assert _explained(store, committed) == (["Its transaction is committed.", behind], at)
    assert _explained(store, other) == (["Its transaction is in_progress.", behind], at)
    assert "rolled back" in _explained(store, rolled_back)[0][0]
    monkeypatch.setattr(inspection, "_ROWS_LOOKED_AT", 1)
    assert "only searched in 1 messages" in _explained(store, plain)[0][1]


async def _fill_compact(store: str) -> list[str]:
    services = await open_services(store, clock=ManualClock(NOW_MS))
    topic = TopicId("default", "prices")
    await services.messaging.create_topic(topic, {"cleanup": "compact", "tombstone_s": 60})
    writes = ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None))
    bodies = bodies_of([encode_body(payload, key) for key, payload in writes])
    published = await services.messaging.publish(topic, bodies)
    await services.close()
    return [message_id.hex() for message_id in published]


def test_a_message_of_a_compact_topic_explained(tmp_path: Path) -> None:
    store = f"leveldb:{tmp_path / 'compact'}"
    superseded, newest, newer, tombstone = asyncio.run(_fill_compact(store))
    said = "has the same key: when all readers see that one, compaction removes this"
    assert f"{newer} {said}" in debug(store, "explain", "prices", superseded)[1]
    assert "newest message of its key" in debug(store, "explain", "prices", newest)[1]
    assert "compaction removes it after 60 s" in debug(store, "explain", "prices", tombstone)[1]
    gone = MessageId(NOW_MS - 5, 0).encode().hex()
    assert "The topic is compact" in debug(store, "explain", "prices", gone)[1]


async def _raise_ttl(store: str) -> None:
    services = await open_services(store, clock=ManualClock(NOW_MS + 5_000))
    await services.messaging.update_topic(TOPIC, {"ttl": 4})
    await services.messaging.update_topic(TOPIC, {"ttl": NEVER_S})
    await services.close()


def test_what_had_expired_when_the_ttl_was_raised_is_explained(
    store: str, filled: tuple[list[str], int]
) -> None:
    asyncio.run(_raise_ttl(store))
    [facts] = lines(store, "explain", "orders", filled[0][0], "--json")
    [metadata] = lines(store, "rows", "--table", "metadata")

    assert facts["live_from_ms"] == NOW_MS + 1_000
    assert "It has expired: no reader gets it." in facts["said"]
    assert "live_from_ms" not in metadata["properties"]


def test_bounds_and_what_holds_them(store: str, filled: tuple[list[str], int]) -> None:
    [told] = lines(store, "bounds", "--json")

    assert told["bounds"] == []
    assert told["invalid"]["oldest"] == str(filled[1])
    assert "not yet cleaned up" in debug(store, "bounds")[1]

    async def clean() -> None:
        services = await open_services(store, clock=ManualClock(NOW_MS + 1))
        assert services.cleanup is not None
        assert await services.cleanup.run_pass(60)
        await services.close()

    asyncio.run(clean())
    text = debug(store, "bounds")[1]
    assert "inverted up to" in text
    assert "stays until" in text
    assert "rolled back" in debug(store, "explain", "orders", filled[0][2])[1]
    assert debug(store, "verify", "--cleaned")[:2] == (0, "All tables are consistent.\n")


def test_a_publish_of_no_messages_is_not_damage(store: str) -> None:
    async def publish() -> None:
        services = await open_services(store, clock=ManualClock(NOW_MS))
        await services.messaging.create_topic(TOPIC, {"ttl": NEVER_S})
        started = (await services.transactions.start(StartRequest())).transaction_id
        await services.messaging.publish(TOPIC, [], started)
        await services.transactions.commit(started)
        await services.close()

    asyncio.run(publish())
    code, out, _ = debug(store, "verify")

    assert code == 0
    held, counted = out.splitlines()
    assert held == "All tables are consistent."
    assert counted.startswith("Without payloads: 1 reference; no messages were stored for them")


def test_an_export_is_a_line_of_json_a_row(store: str, filled: tuple[list[str], int]) -> None:
    exported = lines(store, "export")
    [tables] = lines(store, "tables", "--json")

    assert len(exported) == sum(table["rows"] for table in tables)
    assert len(lines(store, "export", "--table", "message")) == len(filled[0])


@pytest.mark.usefixtures("filled")
def test_what_does_not_hold_together_is_found(store: str) -> None:
    leveldb = LevelDBStore(Path(store.partition(":")[2]))
    batch = leveldb.batch()
    start = prefix(TOPIC, 1)
    batch.put(MESSAGE, start + KEY.pack(NOW_MS + 10, 0), reference_value(1))
    batch.put(MESSAGE, start + KEY.pack(NOW_MS + 11, 0), b"\x07")
    batch.put(MESSAGE, start + KEY.pack(NOW_MS + 12, 0), transactional_start(5) + b"fine")
    batch.put(MESSAGE, prefix(TOPIC, 2) + KEY.pack(1, 0), b"\0")
    batch.put(MESSAGE, prefix(TopicId("default", "stray"), 1) + KEY.pack(1, 0), b"\0")
    leveldb.write(batch)
    leveldb.close()
    code, out, _ = debug(store, "verify")

    assert code == 1
    assert len(out.splitlines()) == 4
    for part in ("without payloads: 1 reference;", "does not exist yet", "no metadata", "store"):
        assert part in out.lower()


def test_a_folder_without_a_store_is_not_made_one(tmp_path: Path) -> None:
    code, _, err = debug(f"leveldb:{tmp_path}/none", "tables")

    assert code == 2
    assert "there is no store" in err
    assert not (tmp_path / "none").exists()
    assert debug("memory:", "tables")[0] == 2


@pytest.mark.usefixtures("filled")
def test_a_folder_that_a_server_has_says_whose_it_is(store: str) -> None:
    inspection = inspect(store)
    code, _, err = debug(store, "tables")
    inspection.close()

    assert code == 1
    assert "process" in err


def test_a_look_leaves_all_rows_as_they_are(store: str, filled: tuple[list[str], int]) -> None:
    before = lines(store, "export")
    for command in (["tables"], ["rows"], ["bounds"], ["verify"]):
        debug(store, *command)
    debug(store, "explain", "orders", filled[0][0])

    assert lines(store, "export") == before


FRAMED = Message(b"p", b"k", {"h": b"\xff"})


async def _fill_framed(store: str) -> list[str]:
    services = await open_services(store, clock=ManualClock(NOW_MS))
    messaging, transactions = services.messaging, services.transactions
    await messaging.create_topic(TOPIC, {"ttl": NEVER_S})
    framed = bodies_of([FRAMED.body(), tombstone(b"k").body()])
    await messaging.publish(TOPIC, framed)
    pointer = (await transactions.start(StartRequest())).transaction_id
    await messaging.publish(TOPIC, bodies_of([FRAMED.body()]), pointer)
    await messaging.store(TOPIC, framed, pointer)
    await messaging.publish(TOPIC, [], pointer)
    await transactions.commit(pointer)
    found = messaging.poll(TOPIC, Reading(FIRST_ID))
    ids = [message.id.hex() async for block in found for message in block]
    await services.close()
    return ids


def test_keys_and_headers_are_shown(store: str) -> None:
    ids = asyncio.run(_fill_framed(store))
    whole = {"key": "aw==", "headers": {"h": "/w=="}, "payload": "cA=="}
    gone = {"key": "aw==", "payload": None}

    rows = lines(store, "rows", "--topic", "orders")
    told = [{name: row[name] for name in (*whole,) if name in row} for row in rows]
    assert told == [whole, gone, whole, {}]
    assert [row["kind"] for row in rows] == ["plain", "plain", "transactional", "reference"]
    stored = lines(store, "rows", "--table", "payload")
    told = [{name: row[name] for name in (*whole,) if name in row} for row in stored]
    assert told == [whole, gone]
    for message_id in ids[3:]:
        code, out, _ = debug(store, "explain", "orders", message_id)
        assert code == 0
        assert "Its payload is there." in out
    assert debug(store, "verify")[0] == 0


def test_a_damaged_frame_is_found(store: str) -> None:
    asyncio.run(_fill_framed(store))
    folder = LevelDBStore(Path(store.partition(":")[2]))
    with (
        folder.scan(MESSAGE, b"", b"\xff", limit=1) as messages,
        folder.scan(PAYLOAD, b"", b"\xff", limit=1) as payloads,
    ):
        [(message, _)], [(payload, _)] = messages, payloads
    batch = folder.batch()
    batch.put(MESSAGE, message, b"\x03\x02\x08p")
    batch.put(PAYLOAD, payload, b"\x02")
    folder.write(batch)
    folder.close()

    code, out, _ = debug(store, "verify")
    assert code == 1
    assert out.count("frame_start") == 2
