"""Every example in docs/formats.md is what the code produces."""

import doctest
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tables import keys
from tables.hbase.layout import Salt
from tables.leveldb import LevelDBStore
from tables.leveldb_binding import plyvel
from tables.memory import MemoryStore
from tables.sealing import seal, takeovers
from tables.store import ALL_TABLES, GROUP, MESSAGE, METADATA
from tables.store_tables import StoreTables
from tests.docs.markdown import ROOT, Block, blocks
from tms.core.limits import Limits
from tms.core.services.messaging import Published, RollbackRange
from tms.core.values import frame, message, topic, transaction
from tms.core.values.schedules import DuePlace, ScheduledRow
from tms.core.values.store_features import GROUPS
from tms.messaging.groups import edits as group_edits
from tms.messaging.groups import snapshots as group_snapshots
from tms.messaging.groups.state import OpenMessages
from tms.transactions import edits
from tms.transactions.commands import TransactionState
from tms.transactions.snapshot_codec import encode_snapshot
from tms.wire import (
    avro_bodies,
    avro_frames,
    bodies,
    json_bodies,
    transaction_codec,
)

PAGE = "docs/formats.md"
HEX = [block for block in blocks(PAGE) if block.kind == "hex"]
SCHEMAS = [block for block in blocks(PAGE) if block.kind == "json"]
TRANSCRIPTS = [block for block in blocks(PAGE) if block.kind == "pycon"]


def metadata_value(of: topic.TopicMetadata) -> str:
    """Return the value of a topic's row, as the table writes it."""
    store = MemoryStore()
    assert StoreTables(store).metadata.replace(None, of)
    value = store.get(METADATA, keys.metadata_key(of.id))
    assert value is not None
    return value.decode()


def leveldb_key(table: str, key: bytes) -> bytes:
    """Return the key of a row of a table in LevelDB, as the page describes it."""
    prefixes = dict(zip(ALL_TABLES, (b"z", b"p", b"t", b"s", b"x", b"b", b"g"), strict=True))
    return prefixes[table] + key


def hbase_row(table: str, key: bytes) -> bytes:
    """Return HBase's row of a row key, in 8 buckets."""
    return Salt(table, 8).of(key) + key


def group_key(topic_id: topic.TopicId, name: str, token: int, number: int) -> bytes:
    """Return the key of a row of a group's log, as the table writes it."""
    tables = StoreTables(MemoryStore())
    batch = tables.batch()
    log = tables.groups.begin(batch, keys.prefix(topic_id, 1), name, number, b"")
    assert token == 0, "nobody leads"
    log.append(batch, b"a row")
    tables.write(batch)
    with tables.store.scan(GROUP, b"", b"\xff") as rows:
        [key] = [key for key, value in rows if value == b"a row"]
    return key


def scheduled_key(topic_id: topic.TopicId, due_ms: int, number: int) -> bytes:
    """Return the key of a scheduled message, as the table writes it."""
    tables = StoreTables(MemoryStore())
    batch = tables.batch()
    row = ScheduledRow(DuePlace(due_ms, number), b"")
    tables.schedules.read(keys.prefix(topic_id, 1)).rows.put(batch, [row])
    tables.write(batch)
    with tables.store.scan(GROUP, b"", b"\xff") as rows:
        [(key, _)] = rows
    return key


def applied(*made: edits.Edit) -> TransactionState:
    """Return the state of a store that was created at T, after edits."""
    state = TransactionState(Limits(), T)
    for edit in made:
        state.apply(edit)
    return state


def group_row(*made: group_edits.Edit) -> bytes:
    """Return the row that holds edits of the group."""
    return group_edits.encode_row([group_edits.encode_edit(edit) for edit in made])


def group_snapshot(*made: group_edits.Edit) -> bytes:
    """Return the snapshot of a group that was created at T, after edits."""
    state = OpenMessages(by_key=False)
    state.floor = state.last_delivery = T * 1000
    for edit in made:
        state.apply(edit, T)
    return group_snapshots.encode_snapshot(group_snapshots.freeze(state))


T = 1_700_000_000_000
NAMES: dict[str, Any] = {
    **vars(keys),
    **vars(seal),
    **vars(takeovers),
    **vars(message),
    **vars(frame),
    **vars(avro_frames),
    **vars(topic),
    **vars(transaction),
    **vars(bodies),
    **vars(edits),
    "AVRO": avro_bodies.AVRO,
    "JSON": json_bodies.JSON,
    "Limits": Limits,
    "MESSAGE": MESSAGE,
    "ORDERS": topic.TopicId("default", "orders"),
    "Published": Published,
    "RollbackRange": RollbackRange,
    "T": T,
    "TransactionState": TransactionState,
    "W": T * 1_000_000,
    "applied": applied,
    "encode_snapshot": encode_snapshot,
    "How": group_edits.How,
    "ReadEdit": group_edits.ReadEdit,
    "SettledEdit": group_edits.SettledEdit,
    "TakenEdit": group_edits.TakenEdit,
    "group_key": group_key,
    "group_row": group_row,
    "scheduled_key": scheduled_key,
    "group_snapshot": group_snapshot,
    "encode_transaction": transaction_codec.encode_transaction,
    "hbase_row": hbase_row,
    "leveldb_key": leveldb_key,
    "metadata_value": metadata_value,
}


def hex_of(lines: list[str]) -> str:
    """Return the hex digits of lines that consist of groups of digits and an explanation."""
    found = [re.match(r"((?:[0-9a-f]{2})+ )*(?:[0-9a-f]{2})+(?=  |$)", line) for line in lines]
    assert all(found), lines
    return "".join(match[0] for match in found if match).replace(" ", "")


@pytest.mark.parametrize("block", HEX, ids=lambda block: block.place)
def test_bytes_are_as_documented(block: Block) -> None:
    lines = block.text.splitlines()
    call = " ".join(line[2:] for line in lines if line.startswith("# "))
    made = eval(call, dict(NAMES))

    assert hex_of([line for line in lines if not line.startswith("# ")]) == made.hex()


def test_transcripts_go_as_documented() -> None:
    """The transcripts run in order, and share the variables that they define."""
    known: dict[str, Any] = {}
    for block in TRANSCRIPTS:
        test = doctest.DocTestParser().get_doctest(block.text, known, block.place, PAGE, 0)
        told: list[str] = []
        runner = doctest.DocTestRunner()
        runner.run(test, out=told.append, clear_globs=False)
        known = test.globs

        assert runner.summarize(verbose=False).failed == 0, "".join(told)
        assert test.examples


def test_schemas_are_as_documented() -> None:
    told = [json.loads(block.text) for block in SCHEMAS]

    assert told == [
        avro_bodies.PUBLISH_REQUEST_SCHEMA,
        avro_bodies.PUBLISH_RESPONSE_SCHEMA,
        avro_bodies.CONSUME_REQUEST_SCHEMA,
        avro_bodies.CONSUME_RESPONSE_SCHEMA,
        avro_bodies.PUBLISH_ALL_SCHEMA,
        avro_bodies.PUBLISHED_ALL_SCHEMA,
        avro_frames.MESSAGE_SCHEMA,
    ]


def test_every_kind_of_example_is_found() -> None:
    kinds = {block.kind for block in blocks(PAGE)}

    assert kinds == {"hex", "json", "pycon", "text"}
    assert (ROOT / PAGE).read_text(encoding="utf-8").count("\n```hex\n") == len(HEX)


def test_rows_are_in_leveldb_as_documented(tmp_path: Path) -> None:
    store = LevelDBStore(tmp_path)
    batch = store.batch()
    for table in ALL_TABLES:
        batch.put(table, b"key", table.encode())
    store.write(batch)
    assert json.loads((tmp_path / "format.json").read_bytes()) == {"format": 3, "layout": 2}
    store.add_feature(GROUPS)
    store.close()

    with plyvel.DB(str(tmp_path / "leveldb")) as handle:
        assert dict(handle) == {leveldb_key(table, b"key"): table.encode() for table in ALL_TABLES}
    told = {"features": ["groups"], "format": 4, "layout": 2}
    assert json.loads((tmp_path / "format.json").read_bytes()) == told
    assert json.loads((tmp_path / "tms.lock").read_bytes()).keys() == {"pid", "host"}
