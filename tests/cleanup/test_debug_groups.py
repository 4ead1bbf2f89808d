"""`tms debug` shows the rows of groups, and detects missing ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from tables.keys import prefix
from tables.leveldb import LevelDBStore
from tables.store import GROUP
from tables.store_tables import StoreTables
from tests.cli.conftest import Outcome, run_command
from tests.tables.stored_groups import CREATED, ORDERS, append, create_group, create_topic

START = prefix(ORDERS, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = StoreTables(LevelDBStore(tmp_path))
    create_topic(tables)
    log = create_group(tables, "billing")
    append(tables, log, b"one", b"two")
    tables.close()
    return tmp_path


def debug(folder: Path, *arguments: str) -> Outcome:
    return run_command("debug", *arguments, "--store", f"leveldb:{folder}")


def lines(folder: Path, *arguments: str) -> list[Any]:
    code, out, err = debug(folder, *arguments)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def change(folder: Path, key: bytes, value: bytes | None) -> None:
    store = LevelDBStore(folder)
    assert store.compare_and_put(GROUP, key, store.get(GROUP, key), value)
    store.close()


def test_rows_are_shown_and_counted(folder: Path) -> None:
    rows = lines(folder, "rows", "--table", "group", "--topic", "orders")
    [tables] = lines(folder, "tables", "--json")
    [subscription] = lines(folder, "rows", "--table", "subscription")

    assert [row["number"] for row in rows if "number" in row] == [CREATED, CREATED + 1]
    assert bytes.fromhex(rows[1]["value"]) == b"one"
    assert {(row["topic"], row["generation"], row["group"]) for row in rows} == {
        ("default:orders", 1, "billing")
    }
    assert [each["rows"] for each in tables if each["table"] == "group"] == [len(rows)] == [7]
    assert b'"order":"none"' in bytes.fromhex(subscription["value"])
    assert len(lines(folder, "export", "--table", "group")) == 7


def test_a_store_without_groups_has_no_rows_of_them(tmp_path: Path) -> None:
    LevelDBStore(tmp_path).close()

    assert lines(tmp_path, "rows", "--table", "group") == []
    assert debug(tmp_path, "verify")[:2] == (0, "All tables are consistent.\n")


@pytest.mark.parametrize(
    ("end", "value", "said"),
    [
        (b"\x00gbilling\x00" + CREATED.to_bytes(16), None, "a row is missing"),
        (b"\x00sbilling\x00" + CREATED.to_bytes(16) + bytes(4), b"x", "the snapshot is damaged"),
        (b"\x00sbilling\x00" + CREATED.to_bytes(16) + b"\xff" * 4, None, "there is no snapshot"),
        (b"\x00x", b"", "table=group"),
    ],
)
def test_what_is_missing_or_damaged_is_found(
    folder: Path, end: bytes, value: bytes | None, said: str
) -> None:
    assert debug(folder, "verify")[:2] == (0, "All tables are consistent.\n")
    change(folder, START + end, value)
    code, out, _ = debug(folder, "verify")

    assert code == 1
    assert said in out
